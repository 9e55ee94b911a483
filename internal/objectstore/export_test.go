package objectstore_test

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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/objectstore"
	"github.com/bastide-cloud/bastide/internal/objectstore/directory"
)

// workshop is an exporter with a store in a directory and what it told its
// operator.
type workshop struct {
	objectstore.Exporter
	objects, temporary string
	log                bytes.Buffer
}

func newWorkshop(t *testing.T, program string) *workshop {
	t.Helper()
	w := &workshop{objects: t.TempDir(), temporary: t.TempDir()}
	s, err := directory.Open(w.objects, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w.Exporter = objectstore.Exporter{Store: s, Dir: w.temporary, Image: program, Log: slog.New(slog.NewTextHandler(&w.log, nil))}
	return w
}

// ignored is for who does not want to know how far an export is.
func ignored(int) {}

// script is a program that stands for qemu-img.
func script(t *testing.T, body string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "qemu-img")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// copies takes the arguments that qemu-img takes, and says which.
const copies = `echo "$1 $2 $3 $4 $5" > "$7" && cat "$6" >> "$7"`

func export(format string) driver.Export {
	return driver.Export{Account: "000000000001", ID: "snap-export-1", Format: format, Bucket: "bucket",
		Object: "exports/snap-export-1." + format}
}

// What is written is what was on the disk, wherever zeroes are.
func TestWriteRaw(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	var content []byte
	for _, part := range [][]byte{
		bytes.Repeat([]byte("a"), mib), make([]byte, 3*mib), []byte("b"), make([]byte, 2*mib), bytes.Repeat([]byte("c"), mib), make([]byte, 5),
	} {
		content = append(content, part...)
	}
	w := newWorkshop(t, "")
	if err := w.Write(t.Context(), export("raw"), int64(len(content)), bytes.NewReader(content), ignored); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(w.objects, "bucket", "exports", "snap-export-1.raw")); !bytes.Equal(got, content) {
		t.Errorf("%d bytes were written of %d, or others: %v", len(got), len(content), err)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, format, program, want string }{
		{"raw needs no program", "raw", "/nowhere", "content"},
		{"qcow2", "qcow2", copies, "convert -f raw -O qcow2\ncontent"},
		{"vdi", "vdi", copies, "convert -f raw -O vdi\ncontent"},
		{"vmdk", "vmdk", copies, "convert -f raw -O vmdk\ncontent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t, script(t, test.program))
			if err := w.Write(t.Context(), export(test.format), 7, strings.NewReader("content"), ignored); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(w.objects, "bucket", "exports", "snap-export-1."+test.format))
			if string(got) != test.want || err != nil {
				t.Errorf("the object is %q, %v", got, err)
			}
			w.leavesNothing(t)
		})
	}
}

// A disk with nothing on it is not read: the largest there can be would take
// longer than the region waits for anything.
func TestWriteNothing(t *testing.T) {
	t.Parallel()
	const largest = 14901 << 30
	w := newWorkshop(t, script(t, `stat -c %s "$6" > "$7"`))
	if err := w.Write(t.Context(), export("qcow2"), largest, nil, ignored); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), export("raw"), 3<<20+1, nil, ignored); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{"qcow2": fmt.Sprintln(int64(largest)), "raw": strings.Repeat("\x00", 3<<20+1)} {
		if got, err := os.ReadFile(filepath.Join(w.objects, "bucket", "exports", "snap-export-1."+format)); string(got) != want || err != nil {
			t.Errorf("the %s has %d bytes, or others, want %d: %v", format, len(got), len(want), err)
		}
	}
	w.leavesNothing(t)
}

func (w *workshop) leavesNothing(t *testing.T) {
	t.Helper()
	if left, _ := os.ReadDir(w.temporary); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestWriteFails(t *testing.T) {
	t.Parallel()
	fails := script(t, `echo "no room in /secret/place" >&2; exit 1`)
	for _, test := range []struct {
		name    string
		export  driver.Export
		program string
		content io.Reader
		said    string // to whoever asked
		told    string // to the operator
	}{
		{"no program", export("qcow2"), "/nowhere/qemu-img", strings.NewReader("content"),
			"The region cannot make the format qcow2: the program qemu-img is not installed.", ""},
		{"an unknown format", export("iso"), fails, strings.NewReader("content"), "The region cannot make the format iso.", ""},
		{"the program fails", export("vdi"), fails, strings.NewReader("content"), "The region could not write the file.",
			"no room in /secret/place"},
		{"a disk that breaks", export("raw"), fails, broken{}, "The region could not write the file.", "the disk is on fire"},
		{"a disk that is short", export("raw"), fails, strings.NewReader("cont"), "The region could not write the file.", "4 were read"},
		{"no bucket", driver.Export{Format: "raw", Bucket: "..", Object: "one"}, fails, strings.NewReader("content"),
			"The bucket '..' doesn't exist.", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t, test.program)
			err := w.Write(t.Context(), test.export, 7, test.content, ignored)
			if err == nil || err.Error() != test.said {
				t.Errorf("it says %v, want %s", err, test.said)
			}
			if log := w.log.String(); !strings.Contains(log, test.told) || test.told == "" && log != "" {
				t.Errorf("the operator is told %q, want %q", log, test.told)
			}
			w.leavesNothing(t)
		})
	}
}

// hopeless is a store that says why to the operator only.
type hopeless struct{ objectstore.Store }

func (hopeless) Put(context.Context, objectstore.Bucket, string, io.ReaderAt, int64) error {
	return errors.Join(apierror.StoreUnreachable.Errorf("The object store does not answer."), errors.New("10.0.0.1 is on fire"))
}

func TestWriteToNobody(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.Store = hopeless{}
	err := w.Write(t.Context(), export("raw"), 7, strings.NewReader("content"), ignored)
	if err == nil || err.Error() != "The object store does not answer." || !strings.Contains(w.log.String(), "10.0.0.1 is on fire") {
		t.Errorf("it says %v, and the operator is told %q", err, w.log.String())
	}
}

// Half of the way is to read, and half to send; it only goes on.
func TestWriteTellsHowFarItIs(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, script(t, `cat "$6" > "$7"`))
	var told []int
	content := bytes.Repeat([]byte("content!"), 1<<20)
	if err := w.Write(t.Context(), export("vdi"), int64(len(content)), bytes.NewReader(content),
		func(percent int) { told = append(told, percent) }); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(told) || !slices.Contains(told, 25) || !slices.Contains(told, 75) || told[len(told)-1] != 100 {
		t.Errorf("it told %v", told)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the disk is on fire") }

// endless is a disk that nobody can read to its end, and that ends a context
// while it is read.
type endless struct{ cancel func() }

func (e endless) Read(p []byte) (int, error) {
	e.cancel()
	return len(p), nil
}

func TestWriteEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorkshop(t, "")
	if err := w.Write(ctx, export("raw"), 1<<60, endless{cancel}, ignored); !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	w.leavesNothing(t)
}

// The real program makes files that it recognises, with what was on the disk.
func TestRealFormats(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("qemu-img is not installed: apt-get install qemu-utils")
	}
	content := append(make([]byte, 9<<20), bytes.Repeat([]byte("bastide!"), 1<<17)...)
	for _, format := range []string{"qcow2", "vdi", "vmdk"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t, program)
			if err := w.Write(t.Context(), export(format), int64(len(content)), bytes.NewReader(content), ignored); err != nil {
				t.Fatalf("%v: %s", err, w.log.String())
			}
			object := filepath.Join(w.objects, "bucket", "exports", "snap-export-1."+format)
			info, err := exec.Command(program, "info", object).CombinedOutput()
			if err != nil || !strings.Contains(string(info), "file format: "+format) {
				t.Errorf("it is %s, %v", info, err)
			}
			back := filepath.Join(t.TempDir(), "back.raw")
			if said, err := exec.Command(program, "convert", "-O", "raw", object, back).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			if got, _ := os.ReadFile(back); !bytes.Equal(got, content) {
				t.Errorf("%d bytes come back of %d, or others", len(got), len(content))
			}
		})
	}
}

// Zeroes take no room, wherever they are.
func TestWriteSparse(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, test := range []struct {
		name    string
		content []byte
		most    int64 // bytes on the disk
	}{
		{"nothing", nil, 0},
		{"only zeroes", make([]byte, 20*mib), mib},
		{"zeroes at the end", append([]byte("begin"), make([]byte, 20*mib)...), 2 * mib},
		{"zeroes at the beginning", append(make([]byte, 20*mib), "end"...), 2 * mib},
		{"an odd length", append(bytes.Repeat([]byte("x"), 3*mib), 0), 4 * mib},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if n, err := objectstore.WriteSparse(f, bytes.NewReader(test.content)); n != int64(len(test.content)) || err != nil {
				t.Errorf("%d bytes were written, %v", n, err)
			}
			if got, _ := os.ReadFile(f.Name()); !bytes.Equal(got, test.content) {
				t.Errorf("%d bytes are in the file, or others", len(got))
			}
			is, err := f.Stat()
			if err != nil {
				t.Fatal(err)
			}
			if used := is.Sys().(*syscall.Stat_t).Blocks * 512; used > test.most {
				t.Errorf("it takes %d bytes of the disk, want at most %d", used, test.most)
			}
		})
	}
}
