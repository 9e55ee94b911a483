package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/bastide-cloud/bastide/internal/export"
	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/seal"
	"github.com/bastide-cloud/bastide/internal/store"
)

// importStore fills a store with an export, completely or not at all.
func importStore(ctx context.Context, args []string, _, messages io.Writer) (err error) {
	var into place
	var force, running bool
	flags := flag.NewFlagSet("import", flag.ContinueOnError)
	into.flags(flags)
	flags.BoolVar(&force, "force", false, "replace all that the store holds")
	flags.BoolVar(&running, "force-running", false, "like --force, even while nodes run on the store; restart them afterwards")
	file, err := parseWith("file", flags, args, messages)
	if err != nil {
		return err
	}
	input, size, err := openInput(file)
	if err != nil {
		return err
	}
	defer input.Close()
	counted := &countingReader{r: input}
	lines, err := export.NewReader(counted)
	if err != nil {
		return err
	}
	journal, err := into.open(ctx, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	recode, undo, err := into.recoder(lines.Header.Secrets)
	if err != nil {
		return err
	}
	p := newProgress(messages, "importing", size, time.Now)
	err = journal.Fill(ctx, p.watch(export.Ahead(lines.Batches(recode)), counted.n.Load), onto(force, running))
	p.end()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return errors.Join(errors.New("interrupted: nothing was imported"), undo())
	case errors.Is(err, store.ErrNotEmpty):
		return errors.Join(fmt.Errorf("%w: --force replaces all that it holds", err), undo())
	case errors.Is(err, store.ErrRunning):
		return errors.Join(fmt.Errorf("nothing was imported: %w: stop them first, because they would continue with the state in their memory",
			err), undo())
	default:
		return errors.Join(fmt.Errorf("nothing was imported: %w", err), undo())
	}
	fmt.Fprintf(messages, "Imported %s of the region %s.\n", lines.Totals, lines.Header.Region)
	switch own := filepath.Join(into.dir, "master.key"); {
	case exists(into.masterKey) && into.masterKey != own && !exists(own):
		fmt.Fprintf(messages, "Its secrets are sealed with %s: start it with --master-key %s, or copy that file to %s.\n",
			into.masterKey, into.masterKey, own)
	case !exists(into.masterKey):
		fmt.Fprintf(messages, "Its secrets are sealed: before a start, copy the master key of the exported region to %s.\n", into.masterKey)
	}
	if running {
		fmt.Fprintln(messages, "Restart all nodes that run on the store now.")
	}
	if root := filepath.Join(into.dir, region.RootFile); (force || running) && exists(root) {
		fmt.Fprintf(messages, "%s belongs to the region that was replaced.\n", root)
	}
	return nil
}

// onto returns what the store may contain, by the flags.
func onto(force, running bool) store.Onto {
	switch {
	case running:
		return store.OntoRunning
	case force:
		return store.OntoStopped
	}
	return store.OntoEmpty
}

// recoder returns a Recoder that checks documents, and seals their secrets if
// they are in plain text. If the store has no master key, sealed secrets stay
// as they are, unchecked, and for plain ones a key is generated; undo removes
// it.
func (p *place) recoder(secrets export.Secrets) (_ *export.Recoder, undo func() error, err error) {
	kinds, there := region.Kinds(), exists(p.masterKey)
	undo = func() error { return nil }
	if secrets == export.Sealed && !there {
		return export.NewRecoder(resource.Codecs(kinds, resource.AsIs), nil), undo, nil
	}
	key, err := seal.Load(p.masterKey, !there, rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if secrets == export.Sealed {
		return export.NewRecoder(resource.Codecs(kinds, &keyOf{key, p.masterKey}), nil), undo, nil
	}
	if !there {
		undo = func() error { return os.Remove(p.masterKey) }
	}
	return export.NewRecoder(resource.Codecs(kinds, resource.AsIs), resource.Codecs(resource.WithSecrets(kinds), key)), undo, nil
}

// keyOf is a key that names its file in errors.
type keyOf struct {
	*seal.Key
	file string
}

// Open implements [resource.Sealer].
func (k *keyOf) Open(sealed, place string) (string, error) {
	text, err := k.Key.Open(sealed, place)
	if err != nil {
		err = fmt.Errorf("%w: %s must be the key of the exported region; or export it --with-secrets", err, k.file)
	}
	return text, err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// openInput opens a file; an empty name and a dash stand for the input. The
// size is 0 if it is not known.
func openInput(name string) (_ *os.File, size int64, err error) {
	f := os.Stdin
	if name != "" && name != "-" {
		if f, err = os.Open(name); err != nil {
			return nil, 0, err
		}
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return f, size, nil
}

// countingReader counts the bytes read.
type countingReader struct {
	r io.Reader
	n atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
