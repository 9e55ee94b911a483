package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go/aws/credentials"
	v4 "github.com/aws/aws-sdk-go/aws/signer/v4"

	"github.com/bastide-cloud/bastide/internal/region"
)

// asProgram makes the test binary the program itself, so that tests can start
// and kill it.
const asProgram = "BASTIDE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	// A region runs its load balancers without its own environment.
	if os.Getenv(asProgram) != "" || len(os.Args) > 1 && os.Args[1] == balancerCommand {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is the program with arguments, as another process.
func program(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// process is a region served by another process.
type process struct {
	cmd   *exec.Cmd
	url   string // of the public APIs
	admin string // of the administration
	data  string
	root  *region.Root

	mu  sync.Mutex // guards out
	out bytes.Buffer
}

// start serves the region of a data directory and waits until it does.
func start(t testing.TB, data string, flags ...string) *process {
	t.Helper()
	p := &process{data: data}
	p.cmd = program(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", data}, flags...)...)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(io.TeeReader(stdout, p))
	for p.url == "" && lines.Scan() {
		if _, at, ok := strings.Cut(lines.Text(), "Health and metrics are at "); ok {
			p.admin = at
		}
		if strings.HasPrefix(lines.Text(), "Bastide serves the region ") {
			_, p.url, _ = strings.Cut(lines.Text(), " at ")
		}
	}
	if p.url == "" {
		err := p.cmd.Wait()
		t.Fatalf("the region did not start: %v\n%s", err, p.output())
	}
	if p.root, err = region.ReadRoot(data); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// Write collects what the process prints.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// stop asks the process to end and waits until it has.
func (p *process) stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("the region did not end well: %v\n%s", err, p.output())
	}
}

// kill ends the process as a power cut does.
func (p *process) kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed: that is its error
}

// caller calls a region with an access key.
type caller struct {
	url    string
	http   *http.Client
	signer *v4.Signer
}

func (p *process) client(accessKey, secretKey string) *caller {
	return &caller{p.url, http.DefaultClient, v4.NewSigner(credentials.NewStaticCredentials(accessKey, secretKey, ""))}
}

func (p *process) asRoot() *caller { return p.client(p.root.AccessKey, p.root.SecretKey) }

// answer is a decoded answer.
type answer struct {
	status int
	body   map[string]any
}

func (a answer) String() string { return fmt.Sprintf("%d %v", a.status, a.body) }

// get follows names and indexes into the body.
func (a answer) get(path ...any) any {
	var v any = a.body
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

func (a answer) text(path ...any) string {
	s, _ := a.get(path...).(string)
	return s
}

// try calls an action. The error is that of the connection.
func (c *caller) try(action string, params any) (answer, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequest(http.MethodPost, c.url+"/api/v1/"+action, nil)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if _, err := c.signer.Sign(req, bytes.NewReader(body), "oapi", "eu-west-2", time.Now()); err != nil {
		return answer{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode}
	return a, json.NewDecoder(resp.Body).Decode(&a.body)
}

// call calls an action that must succeed.
func (c *caller) call(t testing.TB, action string, params any) answer {
	t.Helper()
	a, err := c.try(action, params)
	if err != nil {
		t.Fatalf("%s: %v", action, err)
	}
	if a.status != http.StatusOK {
		t.Fatalf("%s: %v", action, a)
	}
	return a
}

type params = map[string]any

func readFile(t testing.TB, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
