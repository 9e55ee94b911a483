package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/fault"
)

// Exporter writes what is on disks to a store, as files in some format.
type Exporter struct {
	Store Store
	Dir   string       // where files are made; empty: the directory of the system for such files
	Image string       // the program that makes formats; empty: the qemu-img that is found
	Log   *slog.Logger // of failures that are not for whoever asked for the export
}

// converted are the formats that qemu-img makes, under its names.
var converted = []string{"qcow2", "vdi", "vmdk"}

// Write writes the content of an export, of so many bytes, where the export
// says and as the format that it says. Its errors are sentences for whoever asked
// for it.
func (x *Exporter) Write(ctx context.Context, e driver.Export, size int64, content io.Reader) error {
	err := x.write(ctx, e, size, content)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return errors.New(f.Details)
	}
	x.Log.Error("an export was not written", "account", e.Account, "export", e.ID, "error", err)
	return errors.New("The region could not write the file.")
}

func (x *Exporter) write(ctx context.Context, e driver.Export, size int64, content io.Reader) (err error) {
	program := ""
	if slices.Contains(converted, e.Format) {
		if program, err = x.program(); err != nil {
			return fault.InvalidValue.Errorf("The region cannot make the format %s: the program qemu-img is not installed.", e.Format)
		}
	} else if e.Format != "raw" {
		return fault.InvalidValue.Errorf("The region cannot make the format %s.", e.Format)
	}
	dir, err := os.MkdirTemp(x.Dir, "export-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	raw := filepath.Join(dir, "disk.raw")
	filled, err := spool(ctx, raw, size, content)
	if err != nil {
		return err
	}
	if program == "" {
		return x.put(ctx, e, raw, filled)
	}
	made := filepath.Join(dir, "disk."+e.Format)
	if err := convert(ctx, program, e.Format, raw, made); err != nil {
		return err
	}
	return x.put(ctx, e, made, nil)
}

func (x *Exporter) program() (string, error) {
	if x.Image != "" {
		return exec.LookPath(x.Image)
	}
	return exec.LookPath("qemu-img")
}

// spool writes content of so many bytes to a new file, and answers which of its
// blocks are filled.
func spool(ctx context.Context, name string, size int64, content io.Reader) (filled []bool, err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	written, filled, err := writeSparse(f, until{ctx, content})
	if err == nil && written != size {
		err = fmt.Errorf("the disk has %d bytes, and %d were read", size, written)
	}
	return filled, errors.Join(err, f.Close())
}

// until reads until a context ends.
type until struct {
	ctx context.Context
	io.Reader
}

func (r until) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// convert makes a file of a format of a raw one.
func convert(ctx context.Context, program, format, from, to string) error {
	made := exec.CommandContext(ctx, program, "convert", "-f", "raw", "-O", format, from, to)
	if said, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(said))
	}
	return nil
}

// put puts a file into the store. filled says which of its blocks are, if that is
// known.
func (x *Exporter) put(ctx context.Context, e driver.Export, file string, filled []bool) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	is, err := f.Stat()
	if err != nil {
		return err
	}
	return x.Store.Put(ctx, Bucket{Name: e.Bucket, AccessKey: e.AccessKey, SecretKey: e.SecretKey}, e.Object, sparse{f, filled}, is.Size())
}

// sparse is a file of which it may be known where nothing is. To read that from
// the file takes far longer.
type sparse struct {
	io.ReaderAt
	filled []bool // by block; unknown past the end
}

// ReadAt implements [io.ReaderAt].
func (s sparse) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) && err == nil {
		block := at / blockSize
		part := p[n:min(int64(len(p)), int64(n)+(block+1)*blockSize-at)]
		read := len(part)
		if block < int64(len(s.filled)) && !s.filled[block] {
			clear(part)
		} else {
			read, err = s.ReaderAt.ReadAt(part, at)
		}
		n, at = n+read, at+int64(read)
	}
	return n, err
}

// blockSize is that of the parts of a sparse file, in bytes.
const blockSize = 1 << 20

// WriteSparse writes a new file, of which long rows of zeroes take no room. It
// answers how many bytes the file has.
func WriteSparse(f *os.File, content io.Reader) (written int64, err error) {
	written, _, err = writeSparse(f, content)
	return written, err
}

// writeSparse says as well which blocks are filled.
func writeSparse(f *os.File, content io.Reader) (written int64, filled []bool, err error) {
	buffer, zeroes := make([]byte, blockSize), make([]byte, blockSize)
	for {
		n, err := io.ReadFull(content, buffer)
		part := buffer[:n]
		fill := !bytes.Equal(part, zeroes[:n])
		if fill {
			if _, err := f.WriteAt(part, written); err != nil {
				return written, nil, err
			}
		}
		if n > 0 {
			filled = append(filled, fill)
		}
		written += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return written, filled, f.Truncate(written)
		case err != nil:
			return written, nil, err
		}
	}
}
