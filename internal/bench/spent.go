package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// spent is CPU time, by who has used it.
type spent struct {
	servers  time.Duration
	database time.Duration // 0: there is none, or it is not on this machine
	clients  time.Duration // this process
	machine  time.Duration // everybody; 0: the system does not say
}

func (s spent) since(before spent) spent {
	return spent{s.servers - before.servers, s.database - before.database, s.clients - before.clients, s.machine - before.machine}
}

// spent is what was spent up to now, by the servers that are called among others.
func (b *bench) spent(targets []target) (s spent, err error) {
	for _, t := range targets {
		used, err := t.usage()
		if err != nil {
			return s, err
		}
		s.servers += used.CPU
	}
	if b.shared != nil && b.shared.postmaster != 0 {
		if s.database, err = family(b.shared.postmaster); err != nil {
			return s, err
		}
	}
	own, err := ownUsage()
	s.clients, s.machine = own.CPU, wholeMachine()
	return s, err
}

// tick is the unit of other processes' CPU time in Linux.
const tick = 10 * time.Millisecond

// family is the CPU time of a process and of its children, ended ones too.
func family(parent int) (used time.Duration, err error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		p, ok := readStat(path)
		switch {
		case !ok: // it has just ended
		case p.id == parent:
			used += p.own + p.ended
		case p.parent == parent:
			used += p.own
		}
	}
	return used, nil
}

// stat returns what the system reports about a process.
type stat struct {
	id, parent int
	name       string
	own, ended time.Duration // CPU time, of itself and of its children that have ended
}

// readStat reads a file such as /proc/1/stat: the number, the name in brackets,
// and then words.
func readStat(path string) (p stat, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return p, false
	}
	number, rest, _ := strings.Cut(string(text), " (")
	end := strings.LastIndex(rest, ") ")
	if end < 0 {
		return p, false
	}
	words := strings.Fields(rest[end+2:])
	if len(words) < 15 {
		return p, false
	}
	n := func(text string) int { v, _ := strconv.Atoi(text); return v }
	ticks := func(user, system int) time.Duration { return time.Duration(n(words[user])+n(words[system])) * tick }
	return stat{n(number), n(words[1]), rest[:end], ticks(11, 12), ticks(13, 14)}, true
}

// postmaster is the process that has started another one, if that works for
// PostgreSQL and is on this machine; otherwise 0.
func postmaster(backend int) int {
	p, ok := readStat(fmt.Sprintf("/proc/%d/stat", backend))
	if !ok || p.name != "postgres" {
		return 0
	}
	return p.parent
}

// wholeMachine is the time that the cores were not idle.
func wholeMachine() (used time.Duration) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	for i, word := range strings.Fields(line) {
		switch i {
		case 1, 2, 3, 6, 7, 8: // user, nice, system, interrupts of two kinds, and what other machines took; 4 and 5 are idle
			n, _ := strconv.Atoi(word)
			used += time.Duration(n) * tick
		}
	}
	return used
}
