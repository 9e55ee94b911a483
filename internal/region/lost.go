package region

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal"
)

// traces returns the files in the data directory that only a region leaves
// there. The master key does not count, because it may be put there before the
// first start.
func (o *Options) traces() (names []string, err error) {
	if o.Data == "" {
		return nil, nil
	}
	for _, name := range []string{RootFile, logDir} {
		switch _, err := os.Stat(filepath.Join(o.Data, name)); {
		case err == nil:
			names = append(names, name)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return names, nil
}

// checkLost refuses to found a region in a directory with traces of another
// one: perhaps a disk is not mounted, or a restore went wrong. Founding one
// would replace the other's credentials.
func (o *Options) checkLost(traces []string) error {
	if len(traces) == 0 || o.FoundAnew {
		return nil
	}
	left := strings.Join(traces, " and ")
	if o.Postgres != "" {
		return fmt.Errorf("the directory %s had a region, which has left %s, and the database holds none: "+
			"correct --store, restore the database, or give another --data; with --found-anew a new region is founded", o.Data, left)
	}
	return fmt.Errorf("the directory %s had a region, which has left %s, and its %s is gone or empty: "+
		"mount or restore it, import an export of the region, or give another --data; with --found-anew a new region is founded", o.Data, left,
		sqljournal.File)
}

// hasNoState reports whether the file of the embedded store is missing or empty.
func (o *Options) hasNoState() bool {
	info, err := os.Stat(filepath.Join(o.Data, sqljournal.File))
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// isEmpty reports whether no region was founded in the journal. A nil journal
// is empty.
func isEmpty(ctx context.Context, journal store.Journal) (bool, error) {
	if journal == nil {
		return true, nil
	}
	version, err := journal.Load(ctx, regionAccount, func(store.Row) error { return nil })
	return version == 0, err
}
