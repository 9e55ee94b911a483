package sqljournal

import "github.com/bastide-cloud/bastide/internal/store"

// What a dump asks is the same in all dialects, but for how each says that text
// is in the order of its bytes. Each is a single statement, because it sees a
// single moment. Rows that were removed have no document, where they are kept at
// all. An account without rows is one row of nulls.
const (
	anyAccount = `SELECT id FROM account LIMIT 1`
	countRows  = `SELECT count(*) FROM resource WHERE doc IS NOT NULL`
	dumpRows   = `SELECT a.id, a.version, a.unsettled, r.kind, r.id, r.version, r.seq, r.gone, r.doc
		FROM account a LEFT JOIN resource r ON r.account = a.id AND r.doc IS NOT NULL`

	sqliteDump   = dumpRows + ` ORDER BY a.id, r.kind, r.id`
	postgresDump = dumpRows + ` ORDER BY a.id COLLATE "C", r.kind COLLATE "C", r.id COLLATE "C"`
)

// pieceRows bounds the rows of a batch of a dump, so that it takes little memory
// however large an account is.
const pieceRows = 500

// pieces makes batches of the rows of a dump.
type pieces struct {
	batch store.Batch
	begun bool
	yield func(store.Batch, error) bool
}

// row adds a row, or an account that has none, and reports whether to go on.
func (p *pieces) row(account string, version uint64, pending int, row *store.Row) bool {
	if p.begun && (account != p.batch.Account || len(p.batch.Rows) == pieceRows) && !p.end() {
		return false
	}
	p.begun = true
	p.batch.Account, p.batch.Version, p.batch.Pending = account, version, pending
	if row != nil {
		p.batch.Rows = append(p.batch.Rows, *row)
	}
	return true
}

// end yields what is left.
func (p *pieces) end() bool {
	if !p.begun {
		return true
	}
	batch := p.batch
	p.batch, p.begun = store.Batch{Rows: make([]store.Row, 0, pieceRows)}, false
	return p.yield(batch, nil)
}
