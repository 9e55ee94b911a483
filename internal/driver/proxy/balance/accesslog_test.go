package balance

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// finished are the access logs that wait for publication: their keys, and their
// lines after the header.
func (s *subject) finished() map[string][]string {
	s.Helper()
	files, err := os.ReadDir(s.Logs)
	if err != nil {
		s.Fatal(err)
	}
	logs := map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(s.Logs, file.Name()))
		if err != nil {
			s.Fatal(err)
		}
		head, rest, _ := strings.Cut(string(text), "\n")
		var h LogHeader
		if err := json.Unmarshal([]byte(head), &h); err != nil {
			s.Fatal(err)
		}
		key, err := h.Key(file.Name())
		if err != nil {
			s.Fatal(err)
		}
		logs[h.Bucket+"/"+key] = strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
	}
	return logs
}

// Requests and connections are logged as the service does, one file for each part
// of the day and each destination.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	f := raise(t, nil, "a")
	var now atomic.Pointer[time.Time]
	start := time.Date(2026, 11, 20, 10, 3, 0, 0, time.UTC)
	now.Store(&start)
	tick := make(chan time.Time)
	s := balance(t, f.port, func(o *Options) {
		o.Idle = 100 * 365 * 24 * time.Hour // connections end by the machine's time
		o.Now = func() time.Time { return *now.Load() }
		o.After = func(d time.Duration) <-chan time.Time {
			if d == time.Second {
				return tick
			}
			return time.After(d)
		}
	})
	authority := newAuthority()
	s.apply(func(b *driver.Balancer) {
		b.Listeners = []driver.Listener{
			web(f),
			{Port: 8443, Protocol: "HTTPS", BackendPort: f.port, BackendProtocol: "HTTP", Certificate: "one"},
			{Port: 5432, Protocol: "TCP", BackendPort: f.port, BackendProtocol: "TCP"},
		}
		b.Backends, b.Certificates = f.all, []driver.Certificate{authority.sign(t, "one", "web.example.com")}
		b.AccessLog = &driver.AccessLog{Bucket: "logs", Prefix: "team/web", Interval: 5 * time.Minute}
	})
	s.healthy("a")
	clear := newClient(t)
	get(t, clear, "http://"+s.at(8080)+"/a?b=%22", func(r *http.Request) {
		r.Host = "shop.example.com"
		r.Header.Set("User-Agent", `quo"te`)
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.pool, ServerName: "web.example.com"}}}
	get(t, client, "https://"+s.at(8443)+"/b")
	client.CloseIdleConnections()
	clear.CloseIdleConnections()
	conn := dial(t, s.at(5432))
	if _, err := conn.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	for reader := bufio.NewReader(conn); ; {
		if _, err := reader.ReadString('\n'); err != nil {
			break
		}
	}
	_ = conn.Close()
	eventually(t, "no connection is left", func() bool { return s.Status().Counters.Active == 0 })
	tick <- start
	if logs := s.finished(); len(logs) != 0 {
		t.Errorf("before their time is over there are the logs %v", logs)
	}
	over := start.Add(2 * time.Minute)
	now.Store(&over)
	tick <- over
	tick <- over // the first one is done
	backend := regexp.QuoteMeta(f.all[0].Address.String()) + `:\d+`
	begin, times := `^2026-11-20T10:03:00\.000000Z web 127\.0\.0\.1:\d+ `+backend, ` 0\.000000 0\.000000 0\.000000 `
	want := []string{
		begin + times + `200 200 0 1 "GET http://shop\.example\.com:8080/a\?b=%22 HTTP/1\.1" "quo\\"te" - -$`,
		begin + times + `200 200 0 1 "GET https://127\.65\.\d+\.\d+:8443/b HTTP/1\.1" "Go-http-client/1\.1" TLS_\w+ TLSv1\.3$`,
		begin + times + `- - 18 \d+ "- - - " "-" - -$`,
	}
	logs := s.finished()
	if len(logs) != 1 {
		t.Fatalf("when their time is over there are the logs %v", logs)
	}
	for key, lines := range logs {
		name := regexp.MustCompile(`^logs/team/web/OWSLogs/000000000001/lbu/eu-west-2/2026/11/20/` +
			`000000000001_lbu_eu-west-2_web_20261120T1005Z_` + regexp.QuoteMeta(s.Address.String()) + `_[0-9a-f]{16}\.log$`)
		if !name.MatchString(key) {
			t.Errorf("the key of the log is %s", key)
		}
		for i := range max(len(want), len(lines)) {
			if i >= len(want) || i >= len(lines) || !regexp.MustCompile(want[i]).MatchString(lines[i]) {
				t.Errorf("line %d is\n%q\nwant\n%q", i, lines[min(i, len(lines)-1)], want[min(i, len(want)-1)])
			}
		}
	}

	// Another bucket gets a log of its own, and without one nothing is logged.
	get(t, newClient(t), "http://"+s.at(8080)+"/c")
	s.apply(func(b *driver.Balancer) { b.AccessLog = &driver.AccessLog{Bucket: "others", Interval: time.Hour} })
	get(t, newClient(t), "http://"+s.at(8080)+"/d")
	s.apply(func(b *driver.Balancer) { b.AccessLog = nil })
	get(t, newClient(t), "http://"+s.at(8080)+"/e")
	s.apply(func(b *driver.Balancer) { b.AccessLog = &driver.AccessLog{Bucket: "others", Interval: time.Hour} })
	got := map[string]string{}
	for key, lines := range s.finished() {
		for _, path := range []string{"/c", "/d", "/e"} {
			if strings.Contains(strings.Join(lines, "\n"), path+" HTTP") {
				got[path] = strings.SplitN(key, "/", 2)[0]
			}
		}
	}
	if got["/c"] != "logs" || got["/d"] != "others" || got["/e"] != "" {
		t.Errorf("the requests are logged in %v", got)
	}
}

// What a process left behind that was killed is published by the next one.
func TestUnfinishedLog(t *testing.T) {
	t.Parallel()
	dir, logs := t.TempDir(), t.TempDir()
	text := `{"Account":"000000000001","Region":"eu-west-2","Balancer":"web","Address":"127.0.0.1","Bucket":"logs"}` + "\na line\n"
	if err := os.WriteFile(filepath.Join(dir, unfinished), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := balance(t, 1, func(o *Options) { o.Dir, o.Logs = dir, logs })
	finished := s.finished()
	if len(finished) != 1 {
		t.Fatalf("there are the logs %v", finished)
	}
	for key, lines := range finished {
		if !strings.HasPrefix(key, "logs/OWSLogs/000000000001/") || len(lines) != 1 || lines[0] != "a line" {
			t.Errorf("the log %s has %q", key, lines)
		}
	}
}
