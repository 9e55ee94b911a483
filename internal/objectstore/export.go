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

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/driver"
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
// says and as the format that it says. No content is zeroes, of which none is
// read. It tells how much is done, in percent: the first half is to read, the
// second one to send. Its errors are sentences for whoever asked for it.
func (x *Exporter) Write(ctx context.Context, e driver.Export, size int64, content io.Reader, far func(percent int)) error {
	err := x.write(ctx, e, size, content, far)
	if err == nil || ctx.Err() != nil {
		return err
	}
	f, ok := errors.AsType[*apierror.Error](err)
	if ok && err == error(f) {
		return complaint(f.Details)
	}
	// There is more to it than whoever asked may know.
	x.Log.Error("an export was not written", "account", e.Account, "export", e.ID, "error", err)
	if ok {
		return complaint(f.Details)
	}
	return complaint("The region could not write the file.")
}

// complaint is an error whose text is a sentence for the account that asked.
type complaint string

func (c complaint) Error() string { return string(c) }

func (x *Exporter) write(ctx context.Context, e driver.Export, size int64, content io.Reader, far func(percent int)) (err error) {
	program := ""
	if slices.Contains(converted, e.Format) {
		if program, err = x.program(); err != nil {
			return apierror.InvalidValue.Errorf("The region cannot make the format %s: the program qemu-img is not installed.", e.Format)
		}
	} else if e.Format != "raw" {
		return apierror.InvalidValue.Errorf("The region cannot make the format %s.", e.Format)
	}
	dir, err := os.MkdirTemp(x.Dir, "export-")
	if err != nil {
		return err
	}
	defer func() {
		if failure := os.RemoveAll(dir); failure != nil {
			err = errors.Join(err, failure)
		}
	}()
	raw := filepath.Join(dir, "disk.raw")
	filled, err := spool(ctx, raw, size, content, half(far, 0, size))
	if err != nil {
		return err
	}
	if program == "" {
		return x.put(ctx, e, raw, filled, far)
	}
	made := filepath.Join(dir, "disk."+e.Format)
	if err := convert(ctx, program, e.Format, raw, made); err != nil {
		return err
	}
	return x.put(ctx, e, made, nil, far)
}

// half tells of the half of the way that begins at so many percent by how many
// of its bytes are done.
func half(far func(percent int), from int, size int64) func(done int64) {
	return func(done int64) { far(from + int(50*float64(done)/float64(max(size, 1)))) }
}

func (x *Exporter) program() (string, error) {
	if x.Image != "" {
		return exec.LookPath(x.Image)
	}
	return exec.LookPath("qemu-img")
}

// spool writes content of so many bytes to a new file, and answers which of its
// blocks are filled.
func spool(ctx context.Context, name string, size int64, content io.Reader, far func(done int64)) (filled []bool, err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if content == nil {
		return make([]bool, (size+blockSize-1)/blockSize), errors.Join(f.Truncate(size), f.Close())
	}
	written, filled, err := writeSparse(f, &watched{ctx: ctx, Reader: content, far: far})
	if err == nil && written != size {
		err = fmt.Errorf("the disk has %d bytes, and %d were read", size, written)
	}
	return filled, errors.Join(err, f.Close())
}

// watched reads until a context ends, and tells how far it is.
type watched struct {
	ctx context.Context
	io.Reader
	done int64
	far  func(done int64)
}

func (r *watched) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.Reader.Read(p)
	r.done += int64(n)
	r.far(r.done)
	return n, err
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
func (x *Exporter) put(ctx context.Context, e driver.Export, file string, filled []bool, far func(percent int)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	is, err := f.Stat()
	if err != nil {
		return err
	}
	return x.Store.Put(ctx, Bucket{Name: e.Bucket, Account: e.Account, AccessKey: e.AccessKey, SecretKey: e.SecretKey}, e.Object, sparse{f, filled, ctx, half(far, 50, is.Size())}, is.Size())
}

// sparse is a file of which it may be known where nothing is. To read that from
// the file takes far longer. It is read until a context ends, and tells up to
// where.
type sparse struct {
	io.ReaderAt
	filled []bool // by block; unknown past the end
	ctx    context.Context
	far    func(done int64)
}

// ReadAt implements [io.ReaderAt].
func (s sparse) ReadAt(p []byte, at int64) (n int, err error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
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
	s.far(at)
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
