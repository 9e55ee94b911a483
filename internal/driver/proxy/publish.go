package proxy

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver/proxy/balance"
)

// Access logs that cannot be published wait for as long, and take as much room, in
// bytes. Above, the oldest are dropped.
const (
	maxWait = 7 * 24 * time.Hour
	maxRoom = 1 << 30
)

// publishing publishes finished access logs, until the driver ends. Those that were
// finished while no region ran are among them.
func (d *Driver) publishing() {
	for {
		d.publishAll(d.running)
		select {
		case <-d.running.Done():
			return
		case <-d.After(2 * time.Second):
		}
	}
}

// publishAll publishes all finished access logs. What cannot be is tried again
// with the next call.
func (d *Driver) publishAll(ctx context.Context) {
	dir := filepath.Join(d.Dir, logsDir)
	files, err := os.ReadDir(dir)
	if err != nil {
		d.Log.Error("access logs cannot be published", "error", err)
		return
	}
	var left []os.FileInfo
	for _, file := range files {
		path := filepath.Join(dir, file.Name())
		if err = d.publish(ctx, path, file.Name()); err == nil {
			err = os.Remove(path)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue
		}
		if info, failure := file.Info(); failure == nil {
			left = append(left, info)
		}
		if d.failing != err.Error() {
			d.failing = err.Error()
			d.Log.Error("an access log cannot be published: it is tried again", "file", path, "error", err)
		}
	}
	if len(left) == 0 {
		d.failing = ""
	}
	d.drop(dir, left)
}

// drop removes the oldest of the access logs that could not be published, if they
// have waited for too long or take too much room.
func (d *Driver) drop(dir string, left []os.FileInfo) {
	slices.SortFunc(left, func(a, b os.FileInfo) int { return cmp.Compare(b.ModTime().UnixNano(), a.ModTime().UnixNano()) })
	var room int64
	for _, file := range left {
		if room += file.Size(); room <= maxRoom && d.Now().Sub(file.ModTime()) <= maxWait {
			continue
		}
		d.Log.Error("an access log that cannot be published is dropped", "file", file.Name())
		if err := os.Remove(filepath.Join(dir, file.Name())); err != nil {
			d.Log.Error("an access log cannot be removed", "error", err)
		}
	}
}

// publish puts a finished access log into its bucket.
func (d *Driver) publish(ctx context.Context, path, name string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	line, err := bufio.NewReader(file).ReadBytes('\n')
	var head balance.LogHeader
	if err == nil {
		err = json.Unmarshal(line, &head)
	}
	if err != nil {
		return fmt.Errorf("its first line: %w", err)
	}
	key, err := head.Key(name)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	size := info.Size() - int64(len(line))
	return d.host.Put(ctx, head.Account, head.Bucket, key, io.NewSectionReader(file, int64(len(line)), size), size)
}
