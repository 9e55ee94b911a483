package balance

import (
	"bufio"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// maxLog is the size at which an access log is finished before its time, in bytes.
const maxLog = 64 << 20

// unfinished is the name of the access log that is written, in Options.Dir.
const unfinished = "access.log"

// LogHeader is the first line of a finished access log, in JSON: where the rest is
// published.
type LogHeader struct {
	Account, Region, Balancer, Address string
	Bucket, Prefix                     string
}

// Key is the key of the object that a finished access log becomes, by the name of
// its file.
func (h LogHeader) Key(file string) (string, error) {
	end, random, ok := strings.Cut(strings.TrimSuffix(file, ".log"), "_")
	at, err := time.Parse(endFormat, end)
	if !ok || err != nil {
		return "", fmt.Errorf("%q is no name of a finished access log", file)
	}
	name := strings.Join([]string{h.Account, "lbu", h.Region, h.Balancer, end, h.Address, random}, "_")
	return path.Join(h.Prefix, "OWSLogs", h.Account, "lbu", h.Region, at.Format("2006/01/02"), name+".log"), nil
}

// endFormat is how names of access logs say when their time ended.
const endFormat = "20060102T1504Z"

// accessLog writes what the load balancer does to files, which are finished when
// their time is over and put where they are published from.
type accessLog struct {
	o Options

	mu   sync.Mutex // guards what follows
	head LogHeader
	how  *driver.AccessLog // nil: nothing is logged
	file *os.File          // nil: nothing has been logged since the last one was finished
	to   *bufio.Writer
	size int64
	ends time.Time // when the time of the file is over
}

// openAccessLog finishes what a process left unfinished that was killed.
func openAccessLog(o Options) (*accessLog, error) {
	return &accessLog{o: o}, Finish(o.Dir, o.Logs, o.Rand, o.Now())
}

// Finish puts an access log that was left unfinished in a directory where finished
// ones are published from. There may be none.
func Finish(dir, logs string, rand io.Reader, now time.Time) error {
	err := publish(dir, logs, rand, now)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// use makes the log go by a value. What was logged by another one is finished.
func (a *accessLog) use(v driver.Balancer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	head := LogHeader{Account: v.Account, Region: a.o.Region, Balancer: v.Name, Address: a.o.Address.String()}
	how := v.AccessLog
	if how != nil {
		head.Bucket, head.Prefix = how.Bucket, how.Prefix
	}
	same := head == a.head && (how == nil) == (a.how == nil) && (how == nil || *how == *a.how)
	if !same {
		a.report(a.finish(a.o.Now()))
		a.head, a.how = head, how
	}
}

func (a *accessLog) report(err error) {
	if err != nil {
		a.o.Log.Error("the access log cannot be written", "error", err)
	}
}

// tick writes what was logged to the file, and finishes it when its time is over.
func (a *accessLog) tick(now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	if !now.Before(a.ends) {
		return a.finish(a.ends)
	}
	return a.to.Flush()
}

// close finishes the log.
func (a *accessLog) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.how = nil
	return a.finish(a.o.Now())
}

// finish ends the file, if there is one. The caller holds the mutex.
func (a *accessLog) finish(end time.Time) error {
	if a.file == nil {
		return nil
	}
	err := errors.Join(a.to.Flush(), a.file.Close())
	a.file = nil
	return errors.Join(err, publish(a.o.Dir, a.o.Logs, a.o.Rand, end))
}

// publish puts the file where it is published.
func publish(dir, logs string, rand io.Reader, end time.Time) error {
	random := make([]byte, 8)
	if _, err := io.ReadFull(rand, random); err != nil {
		return err
	}
	name := end.UTC().Format(endFormat) + "_" + hex.EncodeToString(random) + ".log"
	return os.Rename(filepath.Join(dir, unfinished), filepath.Join(logs, name))
}

// write logs a line.
func (a *accessLog) write(now time.Time, line []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.how == nil {
		return
	}
	if a.file != nil && (!now.Before(a.ends) || a.size+int64(len(line)) > maxLog) {
		a.report(a.finish(now))
	}
	if a.file == nil {
		if err := a.begin(now); err != nil {
			a.report(err)
			return
		}
	}
	n, err := a.to.Write(line)
	a.size += int64(n)
	a.report(err)
}

// begin makes a file. The caller holds the mutex.
func (a *accessLog) begin(now time.Time) error {
	head, err := json.Marshal(a.head)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(a.o.Dir, unfinished), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	a.file, a.to, a.size = file, bufio.NewWriterSize(file, 64<<10), 0
	a.ends = now.UTC().Truncate(a.how.Interval).Add(a.how.Interval)
	_, err = a.to.Write(append(head, '\n'))
	return err
}

// request logs a request of HTTP.
func (a *accessLog) request(x *exchange, now time.Time) {
	if x.listener == nil || !a.on() {
		return
	}
	r := x.request
	scheme := "http"
	if x.listener.tls != nil {
		scheme = "https"
	}
	asked := r.Method + " " + scheme + "://" + withPort(r.Host, x.listener.Port) + r.URL.RequestURI() + " " + r.Proto
	a.write(now, entry{
		at: x.start, balancer: a.name(), client: r.RemoteAddr, backend: x.backend, port: x.listener.BackendPort,
		sent: x.sent, answered: x.answered, end: now, status: x.status, backendStatus: x.backendStatus,
		received: x.read.Load(), replied: x.written, request: asked, agent: r.UserAgent(), tls: r.TLS, http: true,
	}.line())
}

// connection logs a connection of TCP or SSL that has ended.
func (a *accessLog) connection(s *session, now time.Time) {
	if !a.on() {
		return
	}
	a.write(now, entry{
		at: s.start, balancer: a.name(), client: s.client.String(), backend: s.backend, port: s.listener.BackendPort,
		sent: s.sent, answered: s.sent, end: now, received: s.read, replied: s.written, tls: s.tls,
	}.line())
}

func (a *accessLog) on() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.how != nil
}

func (a *accessLog) name() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.head.Balancer
}

// withPort is a host with the port that the client has connected to.
func withPort(host string, port int) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port))
}

// entry is what a line of the log says.
type entry struct {
	at                    time.Time
	balancer, client      string
	backend               *backend // nil: there was none
	port                  int      // of the backend
	sent, answered, end   time.Time
	status, backendStatus int // 0: none
	received, replied     int64
	request, agent        string
	tls                   *tls.ConnectionState
	http                  bool
}

// line is the entry as the service writes it: the time; the load balancer; the
// client and the backend, with ports; the seconds until the request was forwarded,
// until the response began and until it ended, -1 if that did not happen; both
// statuses; the bytes received and sent; the request; the client's program; and the
// cipher and the version of TLS.
func (e entry) line() []byte {
	l := make([]byte, 0, 256)
	l = e.at.UTC().AppendFormat(l, "2006-01-02T15:04:05.000000Z")
	l = append(l, ' ')
	l = append(l, e.balancer...)
	l = append(l, ' ')
	l = append(l, e.client...)
	l = append(l, ' ')
	if e.backend == nil {
		l = append(l, '-')
	} else {
		l = netip.AddrPortFrom(e.backend.address, uint16(e.port)).AppendTo(l)
	}
	l = appendSeconds(l, e.at, e.sent)
	l = appendSeconds(l, e.sent, e.answered)
	l = appendSeconds(l, e.answered, e.end)
	for _, status := range []int{e.status, e.backendStatus} {
		l = append(l, ' ')
		if status == 0 {
			l = append(l, '-')
		} else {
			l = strconv.AppendInt(l, int64(status), 10)
		}
	}
	l = append(l, ' ')
	l = strconv.AppendInt(l, e.received, 10)
	l = append(l, ' ')
	l = strconv.AppendInt(l, e.replied, 10)
	l = append(l, ' ')
	if !e.http {
		l = append(l, `"- - - " "-"`...)
	} else {
		l = strconv.AppendQuoteToASCII(l, e.request)
		l = append(l, ' ')
		if e.agent == "" {
			e.agent = "-"
		}
		l = strconv.AppendQuoteToASCII(l, e.agent)
	}
	if e.tls == nil {
		return append(l, " - -\n"...)
	}
	l = append(l, ' ')
	l = append(l, tls.CipherSuiteName(e.tls.CipherSuite)...)
	l = append(l, ' ')
	l = append(l, strings.ReplaceAll(tls.VersionName(e.tls.Version), " ", "v")...)
	return append(l, '\n')
}

// appendSeconds appends the time between two instants, in seconds; -1: one of them
// has not come.
func appendSeconds(l []byte, from, to time.Time) []byte {
	l = append(l, ' ')
	if from.IsZero() || to.IsZero() {
		return append(l, "-1"...)
	}
	return strconv.AppendFloat(l, max(to.Sub(from), 0).Seconds(), 'f', 6, 64)
}
