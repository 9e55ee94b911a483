package sqljournal

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Count implements [store.Dumper].
func (j *Postgres) Count(ctx context.Context) (rows int, err error) {
	err = j.patiently(ctx, func(ctx context.Context) error {
		return j.with(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, countRows).Scan(&rows)
		})
	})
	return rows, err
}

// Dump implements [store.Dumper]. Nodes may write meanwhile. A connection that is
// lost ends it.
func (j *Postgres) Dump(ctx context.Context) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		p := &pieces{yield: yield}
		err := j.with(ctx, func(conn *pgx.Conn) error { return postgresPieces(ctx, conn, p) })
		switch {
		case ctx.Err() != nil:
			yield(store.Batch{}, ctx.Err())
		case err != nil:
			yield(store.Batch{}, j.explain(err))
		}
	}
}

// postgresPieces returns no error once the consumer has stopped.
func postgresPieces(ctx context.Context, conn *pgx.Conn, p *pieces) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found, err := conn.Query(ctx, postgresDump)
	if err != nil {
		return err
	}
	defer found.Close()
	defer cancel() // or Close would read what is left
	for found.Next() {
		var account string
		var version uint64
		var pending int
		var kind, id *string
		var written, seq *uint64
		var gone *int64
		var doc []byte
		if err := found.Scan(&account, &version, &pending, &kind, &id, &written, &seq, &gone, &doc); err != nil {
			return err
		}
		var row *store.Row
		if kind != nil {
			row = &store.Row{Kind: *kind, ID: *id, Version: *written, Seq: *seq, DeletedAt: *gone, Doc: doc}
		}
		if !p.row(account, version, pending, row) {
			return nil
		}
	}
	if err := found.Err(); err != nil {
		return err
	}
	p.end()
	return nil
}

// Fill implements [store.Dumper]. It is one transaction, and holds the version of
// the schema: a node that starts meanwhile waits for its end. It also holds the
// turn of those who lease. Nodes that run have leases, by which they are found.
func (j *Postgres) Fill(ctx context.Context, batches iter.Seq2[store.Batch, error], onto store.Onto) error {
	var given error // of the batches, which is not one of the database
	err := j.with(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			c := &copying{}
			err := c.prepare(ctx, tx, onto)
			if err == nil {
				err = c.copy(ctx, tx, batches)
			}
			given = c.err
			return err
		})
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case given != nil:
		return given
	}
	return j.explain(err)
}

// copying writes batches by COPY, which takes one table after the other.
type copying struct {
	accounts [][]any // to be copied in the end
	account  string
	next     func() (store.Batch, error, bool)
	rows     []store.Row // of the account, not copied yet
	err      error
}

func (c *copying) prepare(ctx context.Context, tx pgx.Tx, onto store.Onto) error {
	for _, statement := range []string{
		`SET LOCAL idle_in_transaction_session_timeout = 0`, // the input may pause for longer than a node may
		postgresSchemaVersion, postgresTurn,
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	var nodes int
	if err := tx.QueryRow(ctx, postgresNodes).Scan(&nodes); err != nil {
		return err
	}
	if nodes > 0 && onto != store.OntoRunning {
		c.err = fmt.Errorf("%w (%d of them; one that was killed counts until its leases end)", store.ErrRunning, nodes)
		return c.err
	}
	if onto != store.OntoEmpty {
		for _, table := range []string{"resource", "account"} {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table); err != nil {
				return err
			}
		}
		return nil
	}
	var account string
	switch err := tx.QueryRow(ctx, anyAccount).Scan(&account); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	c.err = store.ErrNotEmpty
	return c.err
}

func (c *copying) copy(ctx context.Context, tx pgx.Tx, batches iter.Seq2[store.Batch, error]) error {
	next, stop := iter.Pull2(batches)
	defer stop()
	c.next = next
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"resource"}, []string{"account", "kind", "id", "version", "seq", "gone", "doc"},
		c); err != nil {
		return err
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"account"}, []string{"id", "version", "unsettled", "floor", "removed"},
		pgx.CopyFromRows(c.accounts))
	return err
}

// Next implements [pgx.CopyFromSource].
func (c *copying) Next() bool {
	if len(c.rows) > 1 {
		c.rows = c.rows[1:]
		return true
	}
	for {
		b, err, ok := c.next()
		if !ok || err != nil {
			c.err = err
			return false
		}
		// Who is at another version of the account loads it as a whole: what was
		// removed before is not known.
		account := []any{b.Account, int64(b.Version), int64(b.Pending), int64(b.Version), int64(0)}
		if n := len(c.accounts); n > 0 && c.account == b.Account {
			c.accounts[n-1] = account
		} else {
			c.accounts = append(c.accounts, account)
		}
		c.account, c.rows = b.Account, b.Rows
		if len(c.rows) > 0 {
			return true
		}
	}
}

// Values implements [pgx.CopyFromSource].
func (c *copying) Values() ([]any, error) {
	r := &c.rows[0]
	return []any{c.account, r.Kind, r.ID, int64(r.Version), int64(r.Seq), r.DeletedAt, string(r.Doc)}, nil
}

// Err implements [pgx.CopyFromSource].
func (c *copying) Err() error { return c.err }
