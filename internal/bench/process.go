package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// process is a server in its own process.
type process struct {
	listeners
	command *exec.Cmd
	input   io.Closer // closing it ends the process
}

// start starts this program as a server and waits until it listens.
func start(args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.Command(self, args...)}
	p.command.Stderr = os.Stderr
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(output).Decode(&p.listeners); err != nil {
		return nil, errors.Join(fmt.Errorf("the server %q did not start: %w", args, err), p.stop())
	}
	return p, nil
}

func (p *process) stop() error { return errors.Join(p.input.Close(), p.command.Wait()) }

func (p *process) usage() (u usage, err error) {
	text, err := p.get("/usage")
	if err != nil {
		return u, err
	}
	return u, json.Unmarshal(text, &u)
}

func (p *process) get(path string) ([]byte, error) {
	response, err := http.Get("http://" + p.Control + path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server responds with %s to %s", response.Status, path)
	}
	return io.ReadAll(response.Body)
}

// errNoMetric means that the region has no such metric, or no value for it yet.
var errNoMetric = errors.New("the server has no such metric")

// metric returns the value of a metric, by its name and labels.
func (p *process) metric(name string) (float64, error) {
	text, err := p.get("/metrics")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), "\n"+name+" ")
	if !found {
		return 0, fmt.Errorf("%w: %s", errNoMetric, name)
	}
	value, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseFloat(value, 64)
}

// answered returns how many calls of an action the region has served, and in
// how much time by its own clock.
func (p *process) answered(action string) (calls, seconds float64, err error) {
	calls, err = p.metric(`bastide_call_seconds_count{action="` + action + `"}`)
	switch {
	case errors.Is(err, errNoMetric): // it was not called yet
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	}
	seconds, err = p.metric(`bastide_call_seconds_sum{action="` + action + `"}`)
	return calls, seconds, err
}

// profile writes a CPU profile of the next seconds to a file.
func (p *process) profile(dir, name string, d time.Duration) error {
	profile, err := p.get(fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(int(d.Seconds()), 1)))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".pprof"), profile, 0o644)
}
