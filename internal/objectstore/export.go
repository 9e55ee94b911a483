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

// Exporter writes the content of disks to a store, as files in various formats.
type Exporter struct {
	Store Store
	Dir   string       // for temporary files; empty: the system's directory
	Image string       // the program that converts formats; empty: qemu-img in the PATH
	Log   *slog.Logger // for failures that the account must not see
}

// convertible are the formats that qemu-img writes, under its names.
var convertible = []string{"qcow2", "vdi", "vmdk"}

// Write writes the content of an export, size bytes, to the object and in the
// format that the export names. A nil content stands for zeroes. It reports
// progress in percent: the first half is reading, the second half sending. Its
// errors are sentences for the account that owns the export.
func (x *Exporter) Write(ctx context.Context, e driver.Export, size int64, content io.Reader, progress func(percent int)) error {
	err := x.write(ctx, e, size, content, progress)
	if err == nil || ctx.Err() != nil {
		return err
	}
	f, ok := errors.AsType[*apierror.Error](err)
	if ok && err == error(f) {
		return complaint(f.Details)
	}
	// The cause may have details that the account must not see.
	x.Log.Error("an export was not written", "account", e.Account, "export", e.ID, "error", err)
	if ok {
		return complaint(f.Details)
	}
	return complaint("The region could not write the file.")
}

// complaint is an error whose text is a sentence for the account.
type complaint string

func (c complaint) Error() string { return string(c) }

func (x *Exporter) write(ctx context.Context, e driver.Export, size int64, content io.Reader, progress func(percent int)) (err error) {
	program := ""
	if slices.Contains(convertible, e.Format) {
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
	filled, err := spool(ctx, raw, size, content, half(progress, 0, size))
	if err != nil {
		return err
	}
	if program == "" {
		return x.put(ctx, e, raw, filled, progress)
	}
	made := filepath.Join(dir, "disk."+e.Format)
	if err := convert(ctx, program, e.Format, raw, made); err != nil {
		return err
	}
	return x.put(ctx, e, made, nil, progress)
}

// half returns a function that reports bytes done as percent of one half of the
// work, which begins at the given percentage.
func half(progress func(percent int), from int, size int64) func(done int64) {
	return func(done int64) { progress(from + int(50*float64(done)/float64(max(size, 1)))) }
}

func (x *Exporter) program() (string, error) {
	if x.Image != "" {
		return exec.LookPath(x.Image)
	}
	return exec.LookPath("qemu-img")
}

// spool writes content to a new file, and returns which of its blocks are
// filled.
func spool(ctx context.Context, name string, size int64, content io.Reader, progress func(done int64)) (filled []bool, err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if content == nil {
		return make([]bool, (size+blockSize-1)/blockSize), errors.Join(f.Truncate(size), f.Close())
	}
	written, filled, err := writeSparse(f, &progressReader{ctx: ctx, Reader: content, progress: progress})
	if err == nil && written != size {
		err = fmt.Errorf("the disk has %d bytes, and %d were read", size, written)
	}
	return filled, errors.Join(err, f.Close())
}

// progressReader reads until a context ends, and reports progress.
type progressReader struct {
	ctx context.Context
	io.Reader
	done     int64
	progress func(done int64)
}

func (r *progressReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.Reader.Read(p)
	r.done += int64(n)
	r.progress(r.done)
	return n, err
}

// convert converts a raw file to another format.
func convert(ctx context.Context, program, format, from, to string) error {
	made := exec.CommandContext(ctx, program, "convert", "-f", "raw", "-O", format, from, to)
	if output, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(output))
	}
	return nil
}

// put puts a file into the store. filled marks the blocks that are not zero;
// nil: unknown.
func (x *Exporter) put(ctx context.Context, e driver.Export, file string, filled []bool, progress func(percent int)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	is, err := f.Stat()
	if err != nil {
		return err
	}
	return x.Store.Put(ctx, Bucket{Name: e.Bucket, Account: e.Account, AccessKey: e.AccessKey, SecretKey: e.SecretKey}, e.Object,
		sparse{f, filled, ctx, half(progress, 50, is.Size())}, is.Size())
}

// sparse is a file with known holes, which need not be read: that would take
// far longer. It can be read until a context ends, and reports progress.
type sparse struct {
	io.ReaderAt
	filled   []bool // by block; unknown past its end
	ctx      context.Context
	progress func(done int64)
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
	s.progress(at)
	return n, err
}

// blockSize is the size of a block of a sparse file, in bytes.
const blockSize = 1 << 20

// WriteSparse writes a new file in which long runs of zeroes are holes. It
// returns the size of the file in bytes.
func WriteSparse(f *os.File, content io.Reader) (written int64, err error) {
	written, _, err = writeSparse(f, content)
	return written, err
}

// writeSparse is WriteSparse that also returns which blocks are filled.
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
