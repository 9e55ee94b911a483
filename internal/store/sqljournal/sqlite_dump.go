package sqljournal

import (
	"context"
	"iter"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Count implements [store.Dumper].
func (j *SQLite) Count(ctx context.Context) (rows int, err error) {
	conn, err := j.readers.Take(ctx)
	if err != nil {
		return 0, err
	}
	defer j.readers.Put(conn)
	stmt, err := conn.Prepare(countRows)
	if err == nil {
		rows, err = sqlitex.ResultInt(stmt)
	}
	return rows, j.explain(ctx, err)
}

// Dump implements [store.Dumper].
func (j *SQLite) Dump(ctx context.Context) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		if err := j.dump(ctx, &pieces{yield: yield}); err != nil {
			yield(store.Batch{}, j.explain(ctx, err))
		}
	}
}

// dump returns no error once the consumer has stopped.
func (j *SQLite) dump(ctx context.Context, p *pieces) error {
	conn, err := j.readers.Take(ctx)
	if err != nil {
		return err
	}
	defer j.readers.Put(conn)
	stmt, err := conn.Prepare(sqliteDump)
	if err != nil {
		return err
	}
	defer stmt.Reset()
	for {
		found, err := stmt.Step()
		if err != nil {
			return err
		}
		if !found {
			p.end()
			return nil
		}
		if !p.row(stmt.ColumnText(0), uint64(stmt.ColumnInt64(1)), stmt.ColumnInt(2), sqliteRow(stmt, 3)) {
			return nil
		}
	}
}

// Fill implements [store.Dumper]. It is one transaction: until it ends, its
// rows are in the log only, and the directory needs room for them twice. The
// lock of its directory ensures that no other process runs on the journal.
func (j *SQLite) Fill(ctx context.Context, batches iter.Seq2[store.Batch, error], onto store.Onto) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.writer.SetInterrupt(ctx.Done())
	defer j.writer.SetInterrupt(nil)
	return j.explain(ctx, j.fill(batches, onto != store.OntoEmpty))
}

func (j *SQLite) fill(batches iter.Seq2[store.Batch, error], replace bool) (err error) {
	end, err := sqlitex.ImmediateTransaction(j.writer)
	if err != nil {
		return err
	}
	defer end(&err)
	if replace {
		err = sqlitex.ExecuteScript(j.writer, `DELETE FROM resource; DELETE FROM account;`, nil)
	} else {
		err = sqlitex.Execute(j.writer, anyAccount, &sqlitex.ExecOptions{
			ResultFunc: func(*sqlite.Stmt) error { return store.ErrNotEmpty },
		})
	}
	if err != nil {
		return err
	}
	for b, err := range batches {
		if err != nil {
			return err
		}
		if err := j.writeBatch(b); err != nil {
			return err
		}
	}
	return nil
}
