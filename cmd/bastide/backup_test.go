package main

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A region is copied while 64 write to it, and answers them meanwhile. The copy
// starts, has all that was answered before the backup began, and has no half of
// a transaction.
func TestBackupWhileManyWrite(t *testing.T) {
	t.Parallel()
	data, to := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy")
	p := start(t, data, "--throttle", "off")
	work := newWorkload(p, 0)
	var first sync.WaitGroup
	for _, one := range work.writers {
		first.Go(func() {
			for step := range 12 {
				if err := one.step(work.caller, step); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	first.Wait()
	var before [writers]*writer // what was answered before the backup began
	for i, one := range work.writers {
		copied := *one
		copied.nets, copied.pair, copied.keys, copied.deleted = slices.Clone(one.nets), slices.Clone(one.pair), slices.Clone(one.keys),
			slices.Clone(one.deleted)
		before[i] = &copied
	}

	// They go on with tags, and with Nets that they delete at once: no quota ends
	// that.
	var answered atomic.Int64
	var began, all sync.WaitGroup
	began.Add(writers)
	done := make(chan struct{})
	for _, one := range work.writers {
		all.Go(func() {
			begun := sync.OnceFunc(began.Done)
			defer begun()
			for round := 12; ; round += 4 {
				for step := round; step < round+2; step++ {
					if err := one.step(work.caller, step); err != nil {
						t.Error(err)
						return
					}
					answered.Add(1)
				}
				begun()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	began.Wait()
	at := answered.Load()
	out, err := program(t, "backup", "--data", data, "--admin", strings.TrimPrefix(p.admin, "http://"), to).CombinedOutput()
	meanwhile := answered.Load() - at
	close(done)
	all.Wait()
	if err != nil {
		t.Fatalf("%v, %s\n%s", err, out, p.output())
	}
	if !strings.Contains(string(out), "with it every secret of the region can be read") ||
		!strings.Contains(string(out), "bastide serve --data "+to) {
		t.Errorf("the backup says: %s", out)
	}
	if meanwhile == 0 {
		t.Error("nobody was answered while the region was copied")
	}
	t.Logf("%d writes were answered meanwhile", meanwhile)
	p.stop(t)

	for i, one := range before {
		one.tagging = work.writers[i].tagging // may be in the copy, or not
	}
	copied := start(t, to, "--throttle", "off")
	if strings.Contains(copied.output(), "founded") {
		t.Errorf("the copy is a new region:\n%s", copied.output())
	}
	logs := copied.asRoot().call(t, "ReadApiLogs", params{"Filters": params{"QueryCallNames": []string{"CreateUser"}}, "ResultsPerPage": 1000})
	if calls, _ := logs.get("Logs").([]any); len(calls) != writers {
		t.Errorf("the API log of the copy has %d of the %d calls that made users", len(calls), writers)
	}
	(&workload{writers: before}).check(t, copied)
	copied.stop(t)
}

// A region that ends, or is killed, while it is copied leaves no copy that could
// be taken for whole.
func TestBackupIsCutOff(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			data, to := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy")
			p := start(t, data)
			net := p.asRoot().call(t, "CreateNet", params{"IpRange": "10.0.0.0/16"}).text("Net", "NetId")
			// A copy of this file waits for what is in it.
			if err := os.Mkdir(filepath.Join(data, "tls"), 0o700); err != nil {
				t.Fatal(err)
			}
			slow := filepath.Join(data, "tls", "slow")
			if err := syscall.Mkfifo(slow, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := program(t, "backup", "--data", data, "--admin", strings.TrimPrefix(p.admin, "http://"), to)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			hold, err := os.OpenFile(slow, os.O_WRONLY, 0) // it is being copied once this returns
			if err != nil {
				t.Fatal(err)
			}
			defer hold.Close()
			if signal == syscall.SIGKILL {
				p.kill(t)
			} else {
				if err := p.cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				refuses(t, p)
				if err := errors.Join(hold.Close(), p.cmd.Wait()); err != nil {
					t.Errorf("the region did not end well: %v\n%s", err, p.output())
				}
			}
			if err := cmd.Wait(); err == nil || strings.Contains(out.String(), "was copied") {
				t.Errorf("the backup ended with %v: %s", err, out.String())
			}
			switch _, err := os.Stat(to); {
			case signal == syscall.SIGKILL:
				refused(t, nil, "region.db in "+to+" is damaged", "serve", "--data", to, "--listen", "127.0.0.1:0", "--admin", "off")
				refused(t, nil, "is not empty", "backup", "--data", data, to)
			case !errors.Is(err, fs.ErrNotExist):
				t.Errorf("something is left of the copy: %v", err)
			}
			if err := os.Remove(slow); err != nil {
				t.Fatal(err)
			}
			p = start(t, data)
			if got := p.asRoot().call(t, "ReadNets", params{}).text("Nets", 0, "NetId"); got != net {
				t.Errorf("the region itself has the Net %q, want %q", got, net)
			}
			p.stop(t)
		})
	}
}

// refuses returns once the region takes no more calls, because it ends.
func refuses(t *testing.T, p *process) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			return
		}
		conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("it was asked to end, and takes calls")
		}
	}
}

func TestBackupOfAStoppedRegion(t *testing.T) {
	t.Parallel()
	data, to := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy")
	p := start(t, data)
	net := p.asRoot().call(t, "CreateNet", params{"IpRange": "10.0.0.0/16"}).text("Net", "NetId")
	p.stop(t)
	out, err := program(t, "backup", "--data", data, "--admin", "127.0.0.1:1", to).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "was copied to "+to) {
		t.Fatalf("%v, %s", err, out)
	}
	for _, dir := range []string{data, to} {
		p := start(t, dir)
		found := p.asRoot().call(t, "ReadNets", params{"Filters": params{"NetIds": []string{net}}})
		if found.text("Nets", 0, "NetId") != net {
			t.Errorf("%s has not the Net: %v", dir, found)
		}
		p.stop(t)
	}
}

func TestBackupRefusals(t *testing.T) {
	t.Parallel()
	data, other := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "other")
	p, q := start(t, data), start(t, other)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	admin := strings.TrimPrefix(p.admin, "http://")
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no directory", nil, "no directory was given"},
		{"two directories", []string{to, full}, "follows the directory"},
		{"a full directory", []string{"--data", data, "--admin", admin, full}, "is not empty"},
		{"another region's address", []string{"--data", other, "--admin", admin, to}, "this region is the one in " + data},
		{"nobody's address", []string{"--data", data, "--admin", "127.0.0.1:1", to}, "give that address with --admin"},
		{"no administration", []string{"--data", data, "--admin", "off", to}, "give that address with --admin"},
		{"the public address", []string{"--data", data, "--admin", strings.TrimPrefix(p.url, "http://"), to}, "responds: "},
		{"no region", []string{"--data", filepath.Join(full, "none"), to}, "there is no region in"},
	} {
		out, err := program(t, append([]string{"backup"}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, %s\nwant an error with %q", c.name, err, out, c.want)
		}
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("a backup that was refused has left something")
	}
	// A page in somebody's browser is not the operator.
	request, err := http.NewRequest(http.MethodPost, p.admin+"/backup?"+url.Values{"dir": {to}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Origin", "https://elsewhere.example")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site was answered %s", response.Status)
	}
	// A copy has the master key: it is for those who can read the original.
	for _, token := range []string{"", "Bearer ", "Bearer " + readFile(t, other, "admin.token")} {
		if got := askWith(t, p, to, token); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("a backup is asked for with %q: %s", token, got.Status)
		}
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("a backup without the token was made")
	}
	old := readFile(t, data, "admin.token")
	p.stop(t)
	q.stop(t)
	p = start(t, data)
	if got := askWith(t, p, to, "Bearer "+old); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("a backup is asked for with the token of an earlier start: %s", got.Status)
	}
	if got := askWith(t, p, to, "Bearer "+readFile(t, data, "admin.token")); got.StatusCode != http.StatusOK {
		t.Errorf("a backup is asked for with the token: %s", got.Status)
	}
	if _, err := os.Stat(filepath.Join(to, "admin.token")); err == nil {
		t.Error("the token is in the copy")
	}
	p.stop(t)
}

// askWith asks a region for a backup with an Authorization header.
func askWith(t *testing.T, p *process, to, authorization string) *http.Response {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, p.admin+"/backup?"+url.Values{"dir": {to}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", authorization)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response
}
