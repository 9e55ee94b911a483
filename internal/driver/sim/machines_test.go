package sim_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
)

// host is a driver for tests of machines.
type host struct {
	*testing.T
	*sim.Driver
	clock *clock.Virtual
}

func newHost(t *testing.T, delay time.Duration) *host {
	c := clock.NewVirtual(start)
	return &host{t, sim.New(c.Now, delay), c}
}

// make asks for a machine until the driver has it.
func (h *host) make(m driver.Machine) {
	h.Helper()
	for {
		err := h.EnsureMachine(h.Context(), m)
		later, under := errors.AsType[driver.Later](err)
		if !under && err != nil {
			h.Fatal(err)
		}
		if !under {
			return
		}
		h.clock.AdvanceTo(later.At)
	}
}

func (h *host) status(m driver.Machine) driver.MachineStatus {
	h.Helper()
	s, ok, err := h.Machine(h.Context(), m.Account, m.ID)
	if err != nil || !ok {
		h.Fatalf("%s is there: %t, %v", m.ID, ok, err)
	}
	return s
}

// vm is a machine that is on.
func vm() driver.Machine {
	return driver.Machine{
		Account: "000000000001", ID: "i-00000001", Generation: 1,
		Subregion: "region-a", CpuModel: "v6", Cores: 2, Memory: 4, BootMode: "uefi",
		Disks: []driver.MachineDisk{{Disk: "vol-00000001", Device: "/dev/sda1"}},
		Nics:  []driver.MachineNic{{ID: "eni-00000001", MAC: "aa:00:00:00:00:01", Private: []netip.Addr{netip.MustParseAddr("10.0.0.4")}}},
		On:    true, Boots: 1, OnGuest: "stop", OnHost: "stop",
	}
}

func boots(s driver.MachineStatus) int { return strings.Count(string(s.Console), " boots ") }

// A machine is started when somebody asks for it, and only then.
func TestBoots(t *testing.T) {
	t.Parallel()
	for name, delay := range paces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, m := newHost(t, delay), vm()
			change := func(change func()) func() {
				return func() { m.Generation++; change(); h.make(m) }
			}
			guest := func() { h.ShutDownGuest(m.Account, m.ID) }
			failure := func() { h.FailHost(m.Account, m.ID) }
			steps := []struct {
				name  string
				do    func()
				on    bool
				by    driver.Cause
				boots int
			}{
				{"made", func() { h.make(m) }, true, "", 1},
				{"asked again", func() { h.make(m) }, true, "", 1},
				{"changed", change(func() { m.Metadata = map[string]string{"tags/Name": "one"} }), true, "", 1},
				{"rebooted", change(func() { m.Boots++ }), true, "", 2},
				{"shut down by the guest", guest, false, driver.ByGuest, 2},
				{"shut down twice", guest, false, driver.ByGuest, 2},
				{"failing when it is off", failure, false, driver.ByGuest, 2},
				{"asked again when the guest has shut down", func() { h.make(m) }, false, driver.ByGuest, 2},
				{"changed when the guest has shut down", change(func() { m.OnGuest = "restart" }), false, driver.ByGuest, 2},
				{"started", change(func() { m.Boots++ }), true, "", 3},
				{"shut down by the guest and restarted", guest, true, "", 4},
				{"on a host that fails", failure, false, driver.ByHost, 4},
				{"off, which it is", change(func() { m.On = false }), false, "", 4},
				{"on again, if it was not counted", change(func() { m.On = true }), true, "", 5},
				{"told of another host", change(func() { m.OnHost = "restart" }), true, "", 5},
				{"on a host that fails and another", failure, true, "", 6},
				{"off", change(func() { m.On = false }), false, "", 6},
				{"shut down by the guest when off", guest, false, "", 6},
				{"off and counted", change(func() { m.Boots++ }), false, "", 6},
				{"on", change(func() { m.On = true; m.Boots++ }), true, "", 7},
			}
			for _, step := range steps {
				step.do()
				s := h.status(m)
				if s.On != step.on || s.OffBy != step.by || boots(s) != step.boots || (s.Reason == "") != (step.by == "") {
					t.Errorf("%s: on: %t, off by %q (%q), %d boots; want %t, %q, %d",
						step.name, s.On, s.OffBy, s.Reason, boots(s), step.on, step.by, step.boots)
				}
			}
			if later, under := errors.AsType[driver.Later](h.RemoveMachine(t.Context(), m.Account, m.ID)); under {
				h.clock.AdvanceTo(later.At)
			}
			m.Generation = 1
			h.make(m)
			if s := h.status(m); boots(s) != 1 {
				t.Errorf("a machine that was removed and made again has booted %d times, want 1", boots(s))
			}
		})
	}
}

// A machine is as it was until a change is done.
func TestPowerTakesTime(t *testing.T) {
	t.Parallel()
	h, m := newHost(t, 3*time.Second), vm()
	changes := []struct {
		name   string
		change func()
		before bool // whether it is on until the change is done
		after  bool
		reason string // until then
	}{
		{"start", func() {}, false, true, "it is being made"},
		{"stop", func() { m.On = false }, true, false, ""},
		{"start again", func() { m.On, m.Boots = true, 2 }, false, true, ""},
		{"reboot", func() { m.Boots++ }, true, true, ""},
	}
	for _, c := range changes {
		m.Generation++
		c.change()
		if err := h.EnsureMachine(t.Context(), m); err != (driver.Later{At: h.clock.Now().Add(3 * time.Second)}) {
			t.Fatalf("%s: got %v, want it in 3 s", c.name, err)
		}
		h.clock.Advance(2 * time.Second)
		if s := h.status(m); s.On != c.before || s.Reason != c.reason {
			t.Errorf("%s, after 2 of 3 s: on: %t (%q), want %t (%q)", c.name, s.On, s.Reason, c.before, c.reason)
		}
		h.clock.Advance(time.Second)
		if s := h.status(m); s.On != c.after || s.Reason != "" {
			t.Errorf("%s, after 3 s: on: %t (%q), want %t", c.name, s.On, s.Reason, c.after)
		}
	}
}

// Only force turns off a machine whose guest does not hear.
func TestDeafGuest(t *testing.T) {
	t.Parallel()
	for name, delay := range paces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, m := newHost(t, delay), vm()
			h.make(m)
			h.DeafenGuest(m.Account, m.ID)
			m.Generation, m.On = 2, false
			for range 10 {
				later, under := errors.AsType[driver.Later](h.EnsureMachine(t.Context(), m))
				if !under || !later.At.After(h.clock.Now()) {
					t.Fatalf("a guest that does not hear is asked to shut down: got %v, %t", later, under)
				}
				h.clock.AdvanceTo(later.At)
			}
			if s := h.status(m); !s.On || s.OffBy != "" {
				t.Errorf("it is off without force: %+v", s)
			}
			m.Generation, m.Forced = 3, true
			h.make(m)
			if s := h.status(m); s.On || s.OffBy != "" {
				t.Errorf("it is on after it was turned off by force: %+v", s)
			}
			m.Generation, m.On, m.Forced, m.Boots = 4, true, false, 2
			h.make(m)
			m.Generation, m.On = 5, false
			h.make(m)
			if s := h.status(m); s.On {
				t.Errorf("it still does not hear after it has booted")
			}
		})
	}
}

func TestConsole(t *testing.T) {
	t.Parallel()
	run := func(reboots int) string {
		t.Helper()
		h, m := newHost(t, time.Second), vm()
		m.UserData = []byte("#cloud-config\npassword: unspeakable")
		m.Keys = []string{"ssh-ed25519 UNSPEAKABLE"}
		for range reboots {
			h.make(m)
			m.Generation++
			m.Boots++
		}
		was := h.status(m).Console
		text := string(was)
		clear(was)
		if now := string(h.status(m).Console); now != text {
			t.Errorf("who is told a console can change it: %q", now)
		}
		return text
	}
	text := run(2)
	for _, want := range []string{"i-00000001", "vol-00000001", "10.0.0.4", "boots (1)", "boots (2)", "2026-11-20T10:00:01Z"} {
		if !strings.Contains(text, want) {
			t.Errorf("the console lacks %q:\n%s", want, text)
		}
	}
	if lower := strings.ToLower(text); strings.Contains(lower, "unspeakable") || strings.Contains(lower, "cloud-config") {
		t.Errorf("the console says what is secret:\n%s", text)
	}
	if again := run(2); again != text {
		t.Errorf("the same once more:\n%s\nwas:\n%s", again, text)
	}
	const limit = 64 << 10
	if long := run(1000); len(long) > limit || len(long) < limit-1000 || !strings.Contains(long, "boots (1000)") {
		t.Errorf("after 1000 boots the console has %d bytes, want the last of them, up to %d", len(long), limit)
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	line := func(key any) string {
		public, err := ssh.NewPublicKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(ssh.MarshalAuthorizedKey(public))
	}
	rsaKey, edwardsKey := line(&private.PublicKey), line(edwards)
	sealed := func(change func(*driver.Machine)) []byte {
		h, m := newHost(t, 0), vm()
		m.Windows, m.Keys = true, []string{rsaKey}
		change(&m)
		h.make(m)
		return h.status(m).Password
	}
	cases := []struct {
		name   string
		change func(*driver.Machine)
		want   bool
	}{
		{"a Windows", func(*driver.Machine) {}, true},
		{"another system", func(m *driver.Machine) { m.Windows = false }, false},
		{"no key", func(m *driver.Machine) { m.Keys = nil }, false},
		{"a key that cannot seal", func(m *driver.Machine) { m.Keys = []string{edwardsKey} }, false},
		{"a key that can beside others", func(m *driver.Machine) { m.Keys = []string{"nonsense", edwardsKey, rsaKey} }, true},
		{"not started", func(m *driver.Machine) { m.On, m.Boots = false, 0 }, false},
		{"a later boot", func(m *driver.Machine) { m.Boots = 2 }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			password := sealed(c.change)
			if !c.want {
				if password != nil {
					t.Errorf("there is a password")
				}
				return
			}
			opened, err := rsa.DecryptPKCS1v15(nil, private, password)
			if err != nil || len(opened) < 12 {
				t.Errorf("opened: %q, %v", opened, err)
			}
		})
	}
	t.Run("it follows from the machine and is told until the next boot", func(t *testing.T) {
		t.Parallel()
		h, m := newHost(t, 0), vm()
		m.Windows, m.Keys = true, []string{rsaKey}
		h.make(m)
		first := h.status(m).Password
		m.Generation, m.Keys = 2, nil
		h.make(m)
		if got := h.status(m).Password; !slices.Equal(got, first) {
			t.Errorf("the password changes with the keys")
		}
		here, err := rsa.DecryptPKCS1v15(nil, private, first)
		there, thereErr := rsa.DecryptPKCS1v15(nil, private, sealed(func(*driver.Machine) {}))
		other, otherErr := rsa.DecryptPKCS1v15(nil, private, sealed(func(m *driver.Machine) { m.ID = "i-00000002" }))
		if err := errors.Join(err, thereErr, otherErr); err != nil || string(here) != string(there) || string(here) == string(other) {
			t.Errorf("the password is %q, again %q, and of another machine %q; %v", here, there, other, err)
		}
		m.Generation, m.Keys, m.OnGuest = 3, []string{rsaKey}, "restart"
		h.make(m)
		h.ShutDownGuest(m.Account, m.ID)
		if got := h.status(m).Password; got != nil {
			t.Errorf("the password is told after the second boot")
		}
	})
}

func TestRoom(t *testing.T) {
	t.Parallel()
	for name, delay := range paces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, delay)
			rooms := []sim.Room{
				{Subregion: "region-a", Cores: 6, Memory: 100},
				{Subregion: "region-a", CpuModel: "v6", Cores: 100, Memory: 8},
			}
			less := []sim.Room{{Subregion: "region-a", Cores: 1, Memory: 1}}
			h.Limit(rooms...)
			machines := map[string]driver.Machine{}
			generation := uint64(0)
			change := func(id string, change func(*driver.Machine)) func() error {
				return func() error {
					m, known := machines[id]
					if !known {
						m = vm()
						m.ID = id
					}
					generation++
					m.Generation = generation
					if change != nil {
						change(&m)
					}
					err := h.EnsureMachine(t.Context(), m)
					if _, full := errors.AsType[driver.NoCapacity](err); !full {
						machines[id] = m
						h.make(m)
					}
					return err
				}
			}
			steps := []struct {
				name string
				do   func() error
				full bool
			}{
				{"one of 4 GiB", change("one", nil), false},
				{"two of 4 GiB fit in 8", change("two", nil), false},
				{"three do not", change("three", nil), true},
				{"three do if one is off", change("three", func(m *driver.Machine) { m.On = false }), false},
				{"it may not be turned on then", change("three", func(m *driver.Machine) { m.On, m.Boots = true, 2 }), true},
				{"elsewhere there is room", change("four", func(m *driver.Machine) { m.Subregion, m.Cores = "region-b", 1000 }), false},
				{"so there is of another model", change("five", func(m *driver.Machine) { m.CpuModel, m.Cores, m.Memory = "v7", 1, 50 }), false},
				{"but not for more cores of all models", change("six", func(m *driver.Machine) { m.CpuModel, m.Cores = "v7", 2 }), true},
				{"who is on may reboot", change("one", func(m *driver.Machine) { m.Boots++ }), false},
				{"and not grow", change("one", func(m *driver.Machine) { m.Boots++; m.Memory = 5 }), true},
				{"and shrink", change("one", func(m *driver.Machine) { m.Boots++; m.Memory = 3 }), false},
				{"who goes makes room", change("two", func(m *driver.Machine) { m.On = false }), false},
				{"for one that grows into it", change("one", func(m *driver.Machine) { m.Boots++; m.Memory = 8 }), false},
				{"and for nobody else", change("three", func(m *driver.Machine) { m.On, m.Boots = true, 2 }), true},
				{"until it shrinks", change("one", func(m *driver.Machine) { m.Boots++; m.Memory = 3 }), false},
				{"for another", change("three", func(m *driver.Machine) { m.On, m.Boots = true, 2 }), false},
				{"whose guest shuts down", func() error { h.ShutDownGuest("000000000001", "three"); return nil }, false},
				{"which makes room too", change("two", func(m *driver.Machine) { m.On, m.Boots = true, 2 }), false},
				{"when there is less room than is taken", func() error { h.Limit(less...); return nil }, false},
				{"who is on may reboot there", change("one", func(m *driver.Machine) { m.Boots++ }), false},
				{"when there is as much again", func() error { h.Limit(rooms...); return nil }, false},
				{"it may be told things meanwhile", change("three", func(m *driver.Machine) { m.OnHost = "restart" }), false},
				{"and not be started", change("three", func(m *driver.Machine) { m.Boots++ }), true},
			}
			for _, step := range steps {
				err := step.do()
				_, full := errors.AsType[driver.NoCapacity](err)
				if full != step.full {
					t.Errorf("%s: got %v, want no capacity: %t", step.name, err, step.full)
				}
			}
			h.Limit()
			if err := change("three", func(m *driver.Machine) { m.Boots++ })(); err != nil && delay == 0 {
				t.Errorf("without limits: got %v", err)
			}
			if s := h.status(machines["three"]); !s.On {
				t.Errorf("without limits it is off: %+v", s)
			}
		})
	}
}

// A machine has its room from when it is asked for.
func TestRoomIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	h, m := newHost(t, time.Second), vm()
	h.Limit(sim.Room{Subregion: "region-a", Cores: 3, Memory: 100})
	first := h.EnsureMachine(t.Context(), m)
	m.ID = "i-00000002"
	second := h.EnsureMachine(t.Context(), m)
	_, under := errors.AsType[driver.Later](first)
	_, full := errors.AsType[driver.NoCapacity](second)
	if !under || !full || second.Error() != "no host has room for 2 cores and 4 GiB of memory in region-a" {
		t.Errorf("got %v for the first and %v for the second, want no room for the second", first, second)
	}
	if _, ok, err := h.Machine(t.Context(), m.Account, m.ID); ok || err != nil {
		t.Errorf("what has no room is there: %v", err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, m := newHost(t, 0), vm()
		h.make(m)
		var told []string
		watching, end := context.WithCancel(t.Context())
		go h.WatchMachines(watching, func(account, id string) {
			told = append(told, account+" "+id+": "+string(h.status(m).OffBy))
		})
		synctest.Wait()
		m.Generation, m.Boots = 2, 2
		h.make(m)
		if len(told) != 0 {
			t.Errorf("what was asked for is told: %q", told)
		}
		h.ShutDownGuest(m.Account, m.ID)
		h.ShutDownGuest(m.Account, m.ID)
		h.FailHost(m.Account, "i-00000009")
		m.Generation, m.Boots = 3, 3
		h.make(m)
		h.FailHost(m.Account, m.ID)
		if want := []string{"000000000001 i-00000001: guest", "000000000001 i-00000001: host"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		end()
		synctest.Wait()
		m.Generation, m.Boots = 4, 4
		h.make(m)
		h.ShutDownGuest(m.Account, m.ID)
		if len(told) != 2 {
			t.Errorf("told after the end: %q", told)
		}
		broken := errors.New("the cable is cut")
		h.Fail(func(op string) error { return map[string]error{"WatchMachines": broken}[op] })
		if err := h.WatchMachines(t.Context(), nil); err != broken {
			t.Errorf("told to fail: got %v, want %v", err, broken)
		}
	})
}

// The metadata service is that of the machine as it is, and not as it was asked
// to be.
func TestMetadataService(t *testing.T) {
	t.Parallel()
	h, m := newHost(t, time.Second), vm()
	m.Metadata = map[string]string{"instance-id": m.ID}
	if _, ok := h.MetadataService(m.Account, m.ID); ok {
		t.Errorf("a machine that there is not has a metadata service")
	}
	h.make(m)
	m.Generation, m.UserData = 2, []byte("#!/bin/sh")
	h.EnsureMachine(t.Context(), m)
	answers := func() string {
		service, ok := h.MetadataService(m.Account, m.ID)
		if !ok {
			t.Fatal("there is no metadata service")
		}
		var all []string
		for _, path := range []string{"meta-data/", "meta-data/instance-id", "meta-data/placement/server", "user-data"} {
			answer := httptest.NewRecorder()
			service.ServeHTTP(answer, httptest.NewRequest("GET", "/latest/"+path, nil))
			all = append(all, strings.TrimSpace(answer.Body.String()))
		}
		return strings.Join(all, "|")
	}
	const same = "instance-id\nplacement/|i-00000001|region-a-host|"
	if got, want := answers(), same+"there is nothing at /latest/user-data"; got != want {
		t.Errorf("before the change: got %q, want %q", got, want)
	}
	h.make(m)
	if got, want := answers(), same+"#!/bin/sh"; got != want {
		t.Errorf("after the change: got %q, want %q", got, want)
	}
}
