package sqljournal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Accounts are locked in byte order, so that two transactions for the same ones
// never wait for each other. At this isolation level a statement that has
// waited for a lock sees the changes of its former holder.
const (
	postgresBegin  = `BEGIN ISOLATION LEVEL READ COMMITTED`
	postgresLock   = `SELECT id, version, floor, removed FROM account WHERE id = ANY($1) ORDER BY id COLLATE "C" FOR UPDATE`
	postgresTry    = postgresLock + ` SKIP LOCKED`
	postgresAdd    = `INSERT INTO account (id, version, unsettled, floor, removed) VALUES ($1, 0, 0, 0, 0) ON CONFLICT (id) DO NOTHING`
	postgresCommit = `COMMIT`
	postgresRevert = `ROLLBACK`
)

// One statement writes all rows: by statements of their own 64 rows took twice
// as long.
const (
	postgresPutAccounts = `INSERT INTO account (id, version, unsettled, floor, removed)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, unsettled = excluded.unsettled,
			floor = excluded.floor, removed = excluded.removed`
	postgresPutRows = `INSERT INTO resource (account, kind, id, version, seq, gone, doc)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])
		ON CONFLICT (account, kind, id) DO UPDATE SET version = excluded.version, seq = excluded.seq, gone = excluded.gone, doc = excluded.doc`
	postgresForget = `DELETE FROM resource WHERE account = $1 AND doc IS NULL`
)

// A commit also writes down that its writer made it. If its answer is lost, that
// is where to look.
const (
	postgresSign = `INSERT INTO writer (id, commits, at) VALUES ($1, $2, now()) ON CONFLICT (id) DO UPDATE SET commits = ` +
		`excluded.commits, at = excluded.at`
	postgresSigned   = `SELECT commits FROM writer WHERE id = $1`
	postgresBuryDead = `DELETE FROM writer WHERE at < now() - INTERVAL '1 day'`
)

// forgetAfter is how many rows of an account may say that an object was removed.
// A node that has missed more loads the account as a whole, which takes about
// as long.
const forgetAfter = 1000

// writer is one of a journal's writers, which each have one transaction at a
// time. Its ID is unique.
type writer struct {
	id      uint64
	commits uint64 // that it has tried
}

// transaction implements [store.Locked].
type transaction struct {
	journal *Postgres
	conn    *pgxpool.Conn
	held    map[string]heldAccount
	writer  *writer       // nil: it only looks
	places  chan struct{} // nil: it needs none
}

// heldAccount is an account as it was when it was locked.
type heldAccount struct {
	version, floor, removed uint64
}

// Lock implements [store.Shared].
func (j *Postgres) Lock(ctx context.Context, accounts []string) (store.Locked, error) {
	return j.write(ctx, accounts, (*transaction).begin, j.waiting)
}

// TryLock implements [store.Shared].
func (j *Postgres) TryLock(ctx context.Context, accounts []string) (store.Locked, error) {
	return j.write(ctx, accounts, (*transaction).try, nil)
}

// write begins a transaction of a writer who has one of the places, if there are
// such.
func (j *Postgres) write(ctx context.Context, accounts []string, begin beginning, places chan struct{}) (store.Locked, error) {
	var tx *transaction
	err := j.patiently(ctx, func(ctx context.Context) error {
		if places != nil {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		select {
		case w := <-j.writers:
			var err error
			if tx, err = j.begin(ctx, accounts, begin); err == nil {
				tx.writer, tx.places = w, places
				return nil
			}
			j.writers <- w
			leave(places)
			return err
		case <-ctx.Done():
			leave(places)
			return ctx.Err()
		}
	})
	if err != nil {
		return nil, err
	}
	return tx, nil
}

// leave gives back a place, if there are such.
func leave(places chan struct{}) {
	if places != nil {
		<-places
	}
}

// beginning is how a transaction comes to hold accounts.
type beginning func(tx *transaction, ctx context.Context, accounts []string) error

// begin begins a transaction.
func (j *Postgres) begin(ctx context.Context, accounts []string, begin beginning) (*transaction, error) {
	conn, err := j.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx := &transaction{journal: j, conn: conn, held: map[string]heldAccount{}}
	if err := begin(tx, ctx, slices.Compact(slices.Sorted(slices.Values(accounts)))); err != nil {
		tx.Rollback(ctx)
		return nil, err
	}
	return tx, nil
}

// try locks the accounts that exist and are free.
func (tx *transaction) try(ctx context.Context, accounts []string) error {
	var b pgx.Batch
	b.Queue(postgresBegin)
	b.Queue(postgresTry, accounts).Query(tx.hold)
	return tx.send(ctx, &b)
}

// begin holds all of the accounts, and waits for those that others hold.
func (tx *transaction) begin(ctx context.Context, accounts []string) error {
	var b pgx.Batch
	b.Queue(postgresBegin)
	b.Queue(postgresLock, accounts).Query(tx.hold)
	if err := tx.send(ctx, &b); err != nil || len(tx.held) == len(accounts) {
		return err
	}
	// Some do not exist, and nothing keeps others from making them. To add them
	// now would be out of order, so the transaction begins anew.
	clear(tx.held)
	b = pgx.Batch{}
	b.Queue(postgresRevert)
	b.Queue(postgresBegin)
	for _, account := range accounts {
		b.Queue(postgresAdd, account)
		b.Queue(postgresLock, []string{account}).Query(tx.hold)
	}
	if err := tx.send(ctx, &b); err != nil || len(tx.held) == len(accounts) {
		return err
	}
	return fmt.Errorf("%w: it made the same account", store.ErrAgain)
}

func (tx *transaction) hold(found pgx.Rows) error {
	var account string
	var h heldAccount
	_, err := pgx.ForEachRow(found, []any{&account, &h.version, &h.floor, &h.removed}, func() error {
		tx.held[account] = h
		return nil
	})
	return err
}

// send sends statements together and waits for their answers.
func (tx *transaction) send(ctx context.Context, b *pgx.Batch) error {
	return outcome(tx.conn, tx.conn.SendBatch(ctx, b).Close())
}

// end gives back what the transaction had. The pool closes a connection that is
// still in the midst of one.
func (tx *transaction) end() {
	tx.conn.Release()
	if tx.writer != nil {
		tx.journal.writers <- tx.writer
		leave(tx.places)
	}
}

// Versions implements [store.Locked].
func (tx *transaction) Versions() map[string]uint64 {
	versions := make(map[string]uint64, len(tx.held))
	for account, h := range tx.held {
		versions[account] = h.version
	}
	return versions
}

// Since implements [store.Locked]. It returns [store.ErrAgain] if the
// transaction was lost.
func (tx *transaction) Since(ctx context.Context, account string, version uint64, each func(store.Row) error) (uint64, error) {
	limited, cancel := tx.journal.limited(ctx)
	defer cancel()
	now, rows, err := rowsSince(limited, tx.conn.Conn(), account, version)
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, tx.failed(outcome(tx.conn, err))
	}
	return now, hand(ctx, rows, each)
}

// failed is the error of a transaction that has written nothing.
func (tx *transaction) failed(err error) error {
	if met(err) || gone(err) {
		return fmt.Errorf("%w: %w", store.ErrAgain, tx.journal.explain(err))
	}
	return tx.journal.explain(err)
}

// Rollback implements [store.Locked].
func (tx *transaction) Rollback(ctx context.Context) {
	defer tx.end()
	ctx, cancel := tx.journal.limited(ctx)
	defer cancel()
	// The connection is closed if this fails, which is a rollback, too.
	_, _ = tx.conn.Exec(ctx, postgresRevert)
}

// Commit implements [store.Locked]. Once it has begun it does not heed the
// context: the caller should learn what became of it.
func (tx *transaction) Commit(ctx context.Context, batches []store.Batch) error {
	var b pgx.Batch
	err := tx.write(&b, batches)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil || len(batches) == 0 {
		tx.Rollback(ctx)
		return err
	}
	committed := false
	b.Queue(postgresCommit).Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == postgresCommit
		return nil
	})
	limited, cancel := tx.journal.limited(context.WithoutCancel(ctx))
	defer cancel()
	err = tx.send(limited, &b)
	switch {
	case committed:
		tx.end()
		return nil
	case errors.Is(err, errLost) || sqlState(err) == "40003": // which is how CockroachDB says that it does not know
		defer tx.end()
		tx.conn.Release() // to make room for the one that looks
		return tx.settle(ctx, batches[0].Account)
	case err == nil:
		err = errors.New("the transaction was rolled back")
	}
	// The database has said no, and was not lost: a transaction that it refuses,
	// at the last statement even, has written nothing.
	tx.Rollback(ctx)
	return tx.failed(err)
}

// write queues the statements that write the batches.
func (tx *transaction) write(b *pgx.Batch, batches []store.Batch) error {
	var accounts struct {
		id                               []string
		version, pending, floor, removed []uint64
	}
	var rows struct {
		account, kind, id []string
		version, seq      []uint64
		gone              []int64
		doc               []*string
	}
	var forgetful []string
	for _, batch := range batches {
		h, ok := tx.held[batch.Account]
		if !ok {
			return fmt.Errorf("the account %s is written to, and not held", batch.Account)
		}
		for _, r := range batch.Rows {
			var doc *string
			if r.Doc != nil {
				doc = new(string(r.Doc))
			} else {
				h.removed++
			}
			rows.account, rows.kind, rows.id = append(rows.account, batch.Account), append(rows.kind, r.Kind), append(rows.id, r.ID)
			rows.version, rows.seq = append(rows.version, r.Version), append(rows.seq, r.Seq)
			rows.gone, rows.doc = append(rows.gone, r.DeletedAt), append(rows.doc, doc)
		}
		if h.removed > forgetAfter {
			h.removed, h.floor = 0, batch.Version
			forgetful = append(forgetful, batch.Account)
		}
		accounts.id, accounts.version = append(accounts.id, batch.Account), append(accounts.version, batch.Version)
		accounts.pending = append(accounts.pending, uint64(batch.Pending))
		accounts.floor, accounts.removed = append(accounts.floor, h.floor), append(accounts.removed, h.removed)
	}
	b.Queue(postgresPutAccounts, accounts.id, accounts.version, accounts.pending, accounts.floor, accounts.removed)
	b.Queue(postgresPutRows, rows.account, rows.kind, rows.id, rows.version, rows.seq, rows.gone, rows.doc)
	for _, account := range forgetful {
		b.Queue(postgresForget, account)
	}
	tx.writer.commits++
	b.Queue(postgresSign, int64(tx.writer.id), tx.writer.commits)
	return nil
}

// settle finds out whether the transaction was committed. It has ended once one
// of its accounts can be held again: until then its commit may be on its way.
func (tx *transaction) settle(ctx context.Context, account string) error {
	j, signed := tx.journal, uint64(0)
	err := j.patiently(ctx, func(ctx context.Context) error {
		look, err := j.begin(ctx, []string{account}, (*transaction).begin)
		if err != nil {
			return err
		}
		defer look.Rollback(ctx)
		err = outcome(look.conn, look.conn.QueryRow(ctx, postgresSigned, int64(tx.writer.id)).Scan(&signed))
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err == nil && signed == tx.writer.commits:
			// A primary that gave up waiting for its standby shows the commit
			// all the same. One that comes after it, of the lock, waits again.
			_, err = look.conn.Exec(ctx, postgresCommit)
			return outcome(look.conn, err)
		}
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	case signed != tx.writer.commits:
		return fmt.Errorf("%w: %s: %w", store.ErrAgain, j.name, errLost)
	}
	return nil
}

// Commit implements [store.Journal]: it writes the batches whatever others have
// written. After [store.ErrAgain], too, nothing was written.
func (j *Postgres) Commit(ctx context.Context, batches []store.Batch) error {
	for attempt := 1; ; attempt++ {
		tx, err := j.Lock(ctx, accountsOf(batches))
		if err != nil {
			return err
		}
		if err = tx.Commit(ctx, batches); !errors.Is(err, store.ErrAgain) || attempt == commitAttempts {
			return err
		}
	}
}

const commitAttempts = 5

func accountsOf(batches []store.Batch) []string {
	accounts := map[string]bool{}
	for _, b := range batches {
		accounts[b.Account] = true
	}
	return slices.Collect(maps.Keys(accounts))
}
