// Package postgrestest gives tests and measurements a PostgreSQL server.
//
// The server is the one that the environment variable BASTIDE_TEST_POSTGRES
// leads to, or else a throwaway one, made of the programs found on the machine.
// Without either a test is skipped.
package postgrestest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

const environment = "BASTIDE_TEST_POSTGRES"

// Start returns the URL of an empty schema for the test. All throwaway schemas
// of a process are on one server, which ends with the process.
func Start(t testing.TB) string {
	t.Helper()
	base := os.Getenv(environment)
	if base == "" {
		s, err := common()
		if errors.Is(err, ErrNoServer) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		base = s.URL()
	}
	u, schema, err := Schema(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	if base == os.Getenv(environment) {
		t.Cleanup(func() { Exec(t, base, "DROP SCHEMA "+schema+" CASCADE") })
	}
	return u
}

// Find is for programs that are not tests: it returns the URL of the server in
// the environment, or of a throwaway one, and how to stop what was started.
// Without either it returns [ErrNoServer].
func Find() (base string, end func() error, err error) {
	if base := os.Getenv(environment); base != "" {
		return base, func() error { return nil }, nil
	}
	s, err := launch()
	if err != nil {
		return "", nil, err
	}
	return s.URL(), s.remove, nil
}

// Schema makes an empty schema, and answers its name and the URL that leads to
// it. The database chooses the name: processes that share it do not know of each
// other.
func Schema(ctx context.Context, base string) (schemaURL, name string, err error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", "", fmt.Errorf("%s is no URL", environment) // which may hold a password
	}
	conn, err := pgx.Connect(ctx, base)
	if err != nil {
		return "", "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := conn.QueryRow(ctx, "SELECT 'bastide_test_' || replace(gen_random_uuid()::text, '-', '')").Scan(&name); err != nil {
		return "", "", err
	}
	if _, err := conn.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
		return "", "", err
	}
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String(), name, nil
}

// Exec runs statements on a connection of their own.
func Exec(t testing.TB, url string, statements ...string) {
	t.Helper()
	ctx := context.Background() // a test's own context has ended when it cleans up
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// common starts the server that the tests of a process share.
var common = sync.OnceValues(launch)

// launch makes a server and starts it.
func launch() (*Server, error) {
	s, err := initialize()
	if err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// Server is a throwaway server. It is on one socket for as long as it exists,
// and keeps its data when it is stopped. It calls fsync, as one that counts does.
type Server struct {
	bin, dir string
	owner    *syscall.Credential // who runs it; nil: this process's user

	keeper *exec.Cmd // nil: it does not run
	orders io.WriteCloser
}

// Own starts a server that only this test uses, so that it can be stopped.
func Own(t testing.TB) *Server {
	t.Helper()
	s, err := initialize()
	if errors.Is(err, ErrNoServer) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	})
	s.Start(t)
	return s
}

// URL leads to the server's own database, as its superuser.
func (s *Server) URL() string {
	return "postgres://postgres@/postgres?" + url.Values{"host": {s.dir}}.Encode()
}

// Start starts a server that was stopped, and answers when it serves.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// Stop ends all connections and then the server, if it runs.
func (s *Server) Stop() {
	if s.keeper == nil {
		return
	}
	_, _ = io.WriteString(s.orders, "stop\n")
	_ = s.keeper.Wait()
	s.keeper = nil
}

// remove stops the server and leaves nothing of it.
func (s *Server) remove() error {
	s.Stop()
	return os.RemoveAll(s.dir)
}

// ErrNoServer says that there is no server, and how to get one.
var ErrNoServer = errors.New("PostgreSQL was not found: set " + environment +
	" to the URL of a server, or install one (on Debian: apt-get install postgresql)")

// initialize makes the files of a server.
func initialize() (*Server, error) {
	initdb, ok := Program("initdb")
	if !ok {
		return nil, ErrNoServer
	}
	// The path of a socket may have 107 bytes.
	dir, err := os.MkdirTemp("", "bastide-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: filepath.Dir(initdb), dir: dir}
	if os.Geteuid() == 0 {
		if s.owner, err = unprivileged(); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			return nil, err
		}
	}
	args := []string{"-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"}
	// With a collation that does not compare bytes a test shows more. Not every
	// server has one.
	linguistic := append(slices.Clone(args), "--locale-provider=icu", "--icu-locale=en-US")
	if s.command("initdb", linguistic...).Run() == nil {
		return s, nil
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return nil, err
	}
	if out, err := s.command("initdb", args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s, nil
}

// Program finds a program of the newest server on the machine.
func Program(name string) (path string, ok bool) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) > 0 {
		version := func(path string) int {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
			return n
		}
		return slices.MaxFunc(found, func(x, y string) int { return cmp.Compare(version(x), version(y)) }), true
	}
	path, err := exec.LookPath(name)
	return path, err == nil
}

// unprivileged is another user, because the server refuses to be run by root.
func unprivileged() (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	return cmd
}

// keep runs a server until it is stopped. When the process with the tests ends,
// in any way, nothing is left: it may be killed before it reads that the server
// is ready, and writing that must not end the shell.
const keep = `
trap '' PIPE
"$1/pg_ctl" -D "$2/data" -l "$2/log" -o "-k $2 -c listen_addresses= -c max_connections=300 -c lc_messages=C" -s -w start || exit
echo ready
read -r order
"$1/pg_ctl" -D "$2/data" -m fast -s -w stop
[ "$order" = stop ] || rm -rf "$2"`

func (s *Server) start() error {
	cmd := exec.Command("sh", "-c", keep, "sh", s.bin, s.dir)
	cmd.Dir = s.dir
	// A signal from the terminal goes to the tests, and these end the server.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Setpgid: true}
	orders, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	says, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.keeper, s.orders = cmd, orders
	if _, err := bufio.NewReader(says).ReadString('\n'); err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		s.Stop()
		return fmt.Errorf("the server does not start: %s", bytes.TrimSpace(log))
	}
	return nil
}
