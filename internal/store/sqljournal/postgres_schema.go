package sqljournal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/bastide-cloud/bastide/internal/store"
)

// postgresMigrations lead from one version of the schema to the next, the first
// from a database without tables. The statements in this list have been run on
// real databases, and never change.
//
// The statements can be run twice: a database that commits each on its own may
// be left half-way.
//
// A document is text and not json, which would be another one when it is read:
// CockroachDB only has the kind that forgets how it was written. An operator
// says doc::json. Ids have the collation of the database, because CockroachDB
// lets no column have "C"; they are only compared for equality, which goes by
// bytes, and where order matters it is said.
var postgresMigrations = [][]string{
	{
		`CREATE TABLE IF NOT EXISTS account (
			id        text   NOT NULL PRIMARY KEY,
			version   bigint NOT NULL, -- counts the transactions that wrote to the account
			unsettled bigint NOT NULL, -- how many of its objects a loop must look at
			floor     bigint NOT NULL, -- what was removed up to this version is forgotten
			removed   bigint NOT NULL  -- how many rows say that an object was removed
		)`,
		`CREATE INDEX IF NOT EXISTS account_unsettled ON account (id) WHERE unsettled > 0`,
		`CREATE TABLE IF NOT EXISTS resource (
			account text   NOT NULL,
			kind    text   NOT NULL,
			id      text   NOT NULL,
			version bigint NOT NULL, -- of the account when the row was written
			seq     bigint NOT NULL, -- the order of creation within the account
			gone    bigint NOT NULL, -- when it was deleted, in Unix milliseconds; 0: it lives
			doc     text,            -- JSON; null: it was removed
			PRIMARY KEY (account, kind, id)
		)`,
		`CREATE INDEX IF NOT EXISTS resource_version ON resource (account, version)`,
		`CREATE TABLE IF NOT EXISTS writer (
			id      bigint      NOT NULL PRIMARY KEY, -- drawn when a node starts
			commits bigint      NOT NULL,             -- which of its commits was its last
			at      timestamptz NOT NULL              -- and when that was
		)`,
	},
	{
		`CREATE TABLE IF NOT EXISTS lease (
			name   text        NOT NULL PRIMARY KEY, -- what is held; "node ID": the node is present; "turn": for one node after the other
			holder text        NOT NULL,             -- the node
			until  timestamptz NOT NULL
		)`,
	},
}

// The version of the schema is a row. A node that creates or changes the schema
// locks it; the others wait.
const (
	postgresSchemaTable   = `CREATE TABLE IF NOT EXISTS schema_version (part text NOT NULL PRIMARY KEY, version bigint NOT NULL)`
	postgresSchemaRow     = `INSERT INTO schema_version (part, version) VALUES ('journal', 0) ON CONFLICT (part) DO NOTHING`
	postgresSchemaVersion = `SELECT version FROM schema_version WHERE part = 'journal' FOR UPDATE`
	postgresSchemaChanged = `UPDATE schema_version SET version = $1 WHERE part = 'journal'`
)

// migrate brings the schema up to date.
func (j *Postgres) migrate(ctx context.Context) error {
	return j.with(ctx, func(conn *pgx.Conn) error {
		version, err := j.schemaVersion(ctx, conn)
		if err != nil {
			return err
		}
		if version == len(postgresMigrations) {
			_, err := conn.Exec(ctx, postgresBuryDead)
			return err
		}
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return j.makeSchema(ctx, tx) })
		if sqlState(err) == "23505" {
			// Two made the first table at once, when there was no row to lock.
			return fmt.Errorf("%w: %w", store.ErrAgain, err)
		}
		return err
	})
}

func (j *Postgres) makeSchema(ctx context.Context, tx pgx.Tx) error {
	for _, statement := range []string{postgresSchemaTable, postgresSchemaRow} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	version, err := j.schemaVersion(ctx, tx)
	if err != nil {
		return err
	}
	for _, statement := range slices.Concat(postgresMigrations[version:]...) {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, postgresSchemaChanged, len(postgresMigrations)); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, postgresBuryDead)
	return err
}

// schemaVersion returns the version of the schema; 0 if there is none. A newer
// program's version is an error.
func (j *Postgres) schemaVersion(ctx context.Context, in interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (version int, err error) {
	err = in.QueryRow(ctx, postgresSchemaVersion).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) || sqlState(err) == "42P01" {
		return 0, nil
	}
	if version > len(postgresMigrations) {
		return 0, fmt.Errorf("it was written by a newer program: its schema has version %d, and this program knows %d", version,
			len(postgresMigrations))
	}
	return version, err
}
