package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
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

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"

	"github.com/bastide-cloud/bastide/internal/store/sqljournal/postgrestest"
)

var tortureSeed = flag.Uint64("torture.seed", 0, "seed of the torture; 0 chooses one")

// tortureTime is for how long each region of the torture is tortured: one short
// round, or as many as fit into its share of BASTIDE_TORTURE.
func tortureTime(t *testing.T, regions int) time.Duration {
	text := os.Getenv("BASTIDE_TORTURE")
	if text == "" {
		return roundTime
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("BASTIDE_TORTURE: %v", err)
	}
	return d / time.Duration(regions)
}

const (
	roundTime = 12 * time.Second
	lull      = 3 * time.Second // at the end of a round, before all nodes are killed
	clients   = 12
	// maxCalls is how many calls touch a key of the history, about. More would
	// take the checker too long when many of them were never answered.
	maxCalls = 60
)

// TestTorture lets many clients call a region, each at one of its nodes, while a
// nemesis kills and pauses nodes and breaks their connections to the database.
// Then it checks that some order of the calls, one after the other, explains all
// answers, that what is in the region belongs together, and that the API log has
// each call.
func TestTorture(t *testing.T) {
	seed := *tortureSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to repeat the choices: -torture.seed=%d", seed)
	regions := []struct {
		name  string
		nodes int
		store func(testing.TB) string // nil: SQLite
	}{
		{"SQLite", 1, nil},
		{"PostgreSQL, two nodes", 2, postgrestest.Start},
		{"PostgreSQL, three nodes", 3, postgrestest.Start},
	}
	for i, region := range regions {
		t.Run(region.name, func(t *testing.T) {
			v := &victim{flags: []string{"--throttle", "off"}}
			if region.store != nil {
				v.database = named(t, region.store(t))
				var through string
				through, v.proxy = throughProxy(t, v.database)
				v.flags = append(v.flags, "--store", through)
			}
			data := filepath.Join(t.TempDir(), "data")
			for range region.nodes {
				v.nodes = append(v.nodes, &node{process: start(t, data, v.flags...)})
			}
			end := time.Now().Add(tortureTime(t, len(regions)))
			for n := uint64(0); n == 0 || time.Now().Before(end); n++ {
				r := &round{t: t, victim: v, begun: time.Now(), number: n, made: map[string]bool{}, answered: map[string]call{}}
				r.run(seed, uint64(i)<<32|n<<8)
				r.check()
				if t.Failed() {
					break
				}
				r.clear()
			}
			for _, n := range v.nodes {
				n.process.stop(t)
				n.looksWell(t)
			}
		})
	}
}

// named is the URL with a name for the connections, so that the nemesis breaks
// no others of the server.
func named(t *testing.T, database string) string {
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("application_name", fmt.Sprintf("torture-%d", rand.Uint64()))
	u.RawQuery = q.Encode()
	return u.String()
}

// victim is a region and its nodes.
type victim struct {
	nodes    []*node
	flags    []string
	database string // empty: the region has its own
	proxy    *proxy // before the database
}

type node struct {
	mu      sync.RWMutex // guards process; held while there is none
	process *process

	life life // what the nemesis did; its own, and then the checks'
}

// now is the node's process, once there is one.
func (n *node) now() *process {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.process
}

// kill kills the node and starts it again.
func (n *node) kill(t *testing.T, flags []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	begun := time.Now()
	n.process.kill(t)
	n.life.kills = append(n.life.kills, [2]time.Time{begun, time.Now()})
	if status, _ := n.process.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("a node ended by itself: %v\n%s", n.process.cmd.ProcessState, n.process.output())
	}
	n.looksWell(t)
	n.process = start(t, n.process.data, flags...)
}

// pause stops the node for a while in the midst of what it does.
func (n *node) pause(t *testing.T, d time.Duration) {
	begun := time.Now()
	defer func() { n.life.pauses = append(n.life.pauses, [2]time.Time{begun, time.Now()}) }()
	for _, signal := range []os.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := n.process.cmd.Process.Signal(signal); err != nil {
			t.Error(err)
		}
		if signal == syscall.SIGSTOP {
			<-time.After(d)
		}
	}
}

// looksWell looks for what a node prints when it is broken.
func (n *node) looksWell(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(n.process.output()) {
		if strings.Contains(line, "DATA RACE") || strings.Contains(line, "panic") || strings.Contains(line, "could not be written and are lost") {
			t.Errorf("a node printed:\n%s", n.process.output())
			return
		}
	}
}

// endBackends ends about half of the database's processes that work for the nodes.
func (v *victim) endBackends(t *testing.T) (ended int) {
	u, err := url.Parse(v.database)
	if err != nil {
		t.Fatal(err)
	}
	name := u.Query().Get("application_name")
	q := u.Query()
	q.Set("application_name", "nemesis")
	u.RawQuery = q.Encode()
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	err = conn.QueryRow(t.Context(),
		"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1 AND random() < 0.5", name).Scan(&ended)
	if err != nil {
		t.Error(err)
	}
	return ended
}

// torment is the nemesis, until the end.
func (v *victim) torment(t *testing.T, random *rand.Rand, end time.Time) string {
	did := map[string]int{}
	between := func(low, high time.Duration) time.Duration {
		return low + time.Duration(random.Int64N(int64(high-low)))
	}
	for time.Now().Before(end.Add(-lull)) {
		<-time.After(between(50*time.Millisecond, 700*time.Millisecond))
		n := v.nodes[random.IntN(len(v.nodes))]
		switch what := random.IntN(6); {
		case what < 2:
			n.kill(t, v.flags)
			did["kills"]++
		case what == 2 || v.database == "":
			n.pause(t, between(50*time.Millisecond, 2*time.Second))
			did["pauses"]++
		case what == 3:
			did["lost connections"] += v.proxy.loseAnswers()
		default:
			did["ended backends"] += v.endBackends(t)
		}
	}
	// A node that is killed soon after its start has no old records to lose.
	<-time.After(time.Until(end.Add(-lull / 4)))
	for _, n := range v.nodes {
		n.kill(t, v.flags)
		did["kills"]++
	}
	return fmt.Sprint(did)
}

// An op is a call as the history keeps it. Its key has a state: the value of a
// tag, or present; empty is absent.
type op struct {
	key   string
	do    verb
	value string // what the call would put there, or take away
	seen  string // the state that the answer tells, as it was before
}

type verb string

const (
	read    verb = "read"
	set     verb = "set"     // whatever was there
	unset   verb = "unset"   // if value was there
	claim   verb = "claim"   // unless something was there
	release verb = "release" // if something was there
)

const present = "present"

func (o op) String() string {
	return fmt.Sprintf("%s %s value=%q seen=%q", o.do, o.key, o.value, o.seen)
}

// next is the state that the call leaves. It is not ok if in this state the
// answer would have been another one.
func (o op) next(state string) (ok bool, next string) {
	switch o.do {
	case read:
		return state == o.seen, state
	case set:
		return true, o.value
	case unset:
		if state == o.value {
			state = ""
		}
		return true, state
	case claim:
		return state == o.seen, present
	case release:
		return state == o.seen, ""
	}
	panic("no such verb: " + o.do)
}

// model is what a region promises for each key.
var model = porcupine.Model{
	Init:              func() any { return "" },
	Step:              func(state, input, _ any) (bool, any) { return input.(op).next(state.(string)) },
	DescribeOperation: func(input, _ any) string { return input.(op).String() },
}

// linearizable checks each key of a history, and tells of those that no order of
// their calls explains.
func linearizable(history []porcupine.Operation) error {
	keys := map[string][]porcupine.Operation{}
	for _, o := range history {
		key := o.Input.(op).key
		keys[key] = append(keys[key], o)
	}
	for key, ops := range keys {
		switch porcupine.CheckOperationsTimeout(model, ops, time.Minute) {
		case porcupine.Illegal:
			slices.SortFunc(ops, func(x, y porcupine.Operation) int { return cmp.Compare(x.Call, y.Call) })
			var all strings.Builder
			for _, o := range ops {
				fmt.Fprintf(&all, "\n%12d – %-20d client %2d: %v", o.Call, o.Return, o.ClientId, o.Input)
			}
			return fmt.Errorf("no order of the calls explains the answers about %s:%s", key, all.String())
		case porcupine.Unknown:
			return fmt.Errorf("the %d calls about %s are too many to check", len(ops), key)
		}
	}
	return nil
}

// round is a workload, what the nemesis does meanwhile, and what was seen.
type round struct {
	t      *testing.T
	victim *victim
	begun  time.Time
	number uint64

	values                  atomic.Int64 // gives every tag a value of its own
	calls, lost             atomic.Int64
	strayNets, straySubnets atomic.Int64 // whose creation was not answered
	strayNics, strayIps     atomic.Int64

	tagged, yards, names [2]slot // what the clients share

	mu      sync.Mutex // guards what follows
	history []porcupine.Operation
	subnets []part
	nics    []string
	ips     []string        // the IDs of public ones
	made    map[string]bool // what creations were answered

	answered map[string]call // by request ID
}

// part is a Subnet.
type part struct{ id, ipRange string }

// slot is a thing that clients share for so many calls, and then another.
type slot struct {
	mu   sync.Mutex // guards what follows
	id   string
	left int
}

// take answers the thing; if it is used up, another one. It is empty when that
// could not be made.
func (s *slot) take(another func() string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 {
		if s.id = another(); s.id == "" {
			return ""
		}
		s.left = maxCalls
	}
	s.left--
	return s.id
}

func (s *slot) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == id {
		s.left = 0
	}
}

// run lets the clients and the nemesis do their work.
func (r *round) run(seed, stream uint64) {
	end := r.begun.Add(roundTime)
	var all sync.WaitGroup
	for i := range clients {
		c := r.guest(i, r.victim.nodes[i%len(r.victim.nodes)])
		c.random = rand.New(rand.NewPCG(seed, stream|uint64(i)+1))
		all.Go(func() {
			for time.Now().Before(end) && !r.t.Failed() {
				c.step()
			}
		})
	}
	did := r.victim.torment(r.t, rand.New(rand.NewPCG(seed, stream)), end)
	all.Wait()
	r.t.Logf("round %d: %d calls, %d of them never answered; %s", r.number, r.calls.Load(), r.lost.Load(), did)
}

// guest is one of the clients of a round. It calls one node only.
type guest struct {
	*round
	id     int
	node   *node
	http   *http.Client
	random *rand.Rand
}

func (r *round) guest(id int, n *node) *guest {
	transport := &http.Transport{}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &guest{round: r, id: id, node: n, http: &http.Client{Transport: transport, Timeout: 90 * time.Second}}
}

// outcome is what became of a call: the code of its error, empty if there is
// none, or that nobody knows.
type outcome struct {
	answer
	code           string
	lost           bool
	called, ending int64
}

func (c *guest) call(action string, p params) outcome {
	caller := c.node.now().asRoot()
	caller.http = c.http
	begun := time.Now()
	o := outcome{called: int64(begun.Sub(c.begun))}
	var err error
	o.answer, err = caller.try(action, p)
	ended := time.Now()
	o.ending = int64(ended.Sub(c.begun))
	c.calls.Add(1)
	if err != nil || o.status >= 500 {
		c.lost.Add(1)
		o.lost, o.ending = true, math.MaxInt64
		if err == nil {
			c.t.Logf("%s: %v", action, o.answer)
		}
		<-time.After(20 * time.Millisecond) // the nemesis is about to start the node again
		return o
	}
	o.code = o.text("Errors", 0, "Code")
	c.remember(o.text("ResponseContext", "RequestId"), call{c.node, action, begun, ended})
	return o
}

func (c *guest) record(o outcome, done op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: done, Call: o.called, Return: o.ending})
}

// unexpected tells of an answer that no state of the region explains.
func (c *guest) unexpected(action string, o outcome) {
	c.t.Errorf("%s by client %d: %v", action, c.id, o.answer)
}

// step makes one call or two.
func (c *guest) step() {
	which := c.random.IntN(2)
	switch what := c.random.IntN(20); {
	case what < 12:
		if net := c.tagged[which].take(c.createNet); net != "" {
			c.tag(net)
		}
	case what < 15:
		c.user(c.names[which].take(func() string { return fmt.Sprintf("user-%d-%d", c.number, c.values.Add(1)) }))
	case what < 18:
		if net := c.yards[which].take(c.createNet); net != "" {
			c.divide(&c.yards[which], net)
		}
	default:
		c.address()
	}
}

func (c *guest) createNet() string {
	o := c.call("CreateNet", params{"IpRange": "10.0.0.0/16"})
	if o.lost {
		c.strayNets.Add(1)
		return ""
	}
	return c.created("CreateNet", o, o.text("Net", "NetId"))
}

// created remembers what was made.
func (c *guest) created(action string, o outcome, id string) string {
	if id == "" {
		c.unexpected(action, o)
		return ""
	}
	c.record(o, op{key: id, do: claim})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[id] = true
	return id
}

// tagKey is the key of the history that stands for a Net's tag.
func tagKey(net string) string { return "the tag of " + net }

// tag writes or reads the tag of a Net.
func (c *guest) tag(net string) {
	key, value := tagKey(net), fmt.Sprint(c.values.Add(1))
	change := func(action string, done op) {
		o := c.call(action, params{"ResourceIds": []string{net}, "Tags": []params{{"Key": "torture", "Value": done.value}}})
		if o.code != "" {
			c.unexpected(action, o)
		}
		c.record(o, done)
	}
	switch what := c.random.IntN(10); {
	case what < 4:
		change("CreateTags", op{key: key, do: set, value: value})
	case what == 4:
		change("DeleteTags", op{key: key, do: set, value: ""}) // which takes away any value
	default:
		o := c.call("ReadNets", params{"Filters": params{"NetIds": []string{net}, "States": []string{"available"}}})
		if o.lost {
			return
		}
		if o.text("Nets", 0, "NetId") != net {
			c.unexpected("ReadNets", o)
		}
		value := o.text("Nets", 0, "Tags", 0, "Value")
		c.record(o, op{key: key, do: read, seen: value})
		if value != "" && what == 5 {
			change("DeleteTags", op{key: key, do: unset, value: value})
		}
	}
}

// life makes a call that makes or removes what a key stands for.
func (c *guest) life(key string, do verb, action string, p params, seen map[string]string) outcome {
	o := c.call(action, p)
	state, known := seen[o.code]
	switch {
	case o.lost && do == claim:
		c.record(o, op{key: key, do: set, value: present})
	case o.lost:
		c.record(o, op{key: key, do: set, value: ""})
	case known:
		c.record(o, op{key: key, do: do, seen: state})
	default:
		return o
	}
	o.code = ""
	return o
}

// user makes or removes the user of a name that others want, too.
func (c *guest) user(name string) {
	action, do, seen := "CreateUser", claim, map[string]string{"": "", "9022": present}
	if c.random.IntN(3) == 0 {
		action, do, seen = "DeleteUser", release, map[string]string{"": present, "5075": ""}
	}
	if o := c.life(name, do, action, params{"UserName": name}, seen); o.code != "" {
		c.unexpected(action, o)
	}
}

// divide makes and removes Subnets of a Net, which others remove.
func (c *guest) divide(yard *slot, net string) {
	switch what := c.random.IntN(8); {
	case what < 4:
		// Many of these overlap.
		o := c.call("CreateSubnet", params{"NetId": net, "IpRange": fmt.Sprintf("10.0.%d.0/%d", 4*c.random.IntN(3), 22+c.random.IntN(3))})
		switch {
		case o.lost:
			c.straySubnets.Add(1)
		case o.code == "5065":
			c.record(o, op{key: net, do: read, seen: ""})
		case o.code == "" || o.code == "9058":
			c.record(o, op{key: net, do: read, seen: present})
			if o.code != "" {
				return
			}
			if id := c.created("CreateSubnet", o, o.text("Subnet", "SubnetId")); id != "" {
				c.mu.Lock()
				c.subnets = append(c.subnets, part{id, o.text("Subnet", "IpRange")})
				c.mu.Unlock()
			}
		default:
			c.unexpected("CreateSubnet", o)
		}
	case what < 7:
		subnet, ok := latest(c, &c.subnets)
		if !ok {
			return
		}
		o := c.life(subnet.id, release, "DeleteSubnet", params{"SubnetId": subnet.id}, map[string]string{"": present, "5057": ""})
		switch o.code {
		case "":
		case "9095": // it has NICs
			c.record(o, op{key: subnet.id, do: read, seen: present})
		default:
			c.unexpected("DeleteSubnet", o)
		}
	default:
		o := c.life(net, release, "DeleteNet", params{"NetId": net}, map[string]string{"": present, "5065": ""})
		switch o.code {
		case "":
			yard.drop(net)
		case "9097": // it has Subnets
			c.record(o, op{key: net, do: read, seen: present})
		default:
			c.unexpected("DeleteNet", o)
		}
	}
}

// latest is one of the last things that were made, in a list that the clients
// share.
func latest[T any](c *guest, list *[]T) (one T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := (*list)[max(0, len(*list)-6):]; len(last) > 0 {
		return last[c.random.IntN(len(last))], true
	}
	return one, false
}

// address makes and removes NICs, many of which want the same private address,
// and public IPs.
func (c *guest) address() {
	keep := func(list *[]string, id string) {
		if id != "" {
			c.mu.Lock()
			defer c.mu.Unlock()
			*list = append(*list, id)
		}
	}
	remove := func(list *[]string, action, parameter, missing string) {
		if id, ok := latest(c, list); ok {
			if o := c.life(id, release, action, params{parameter: id}, map[string]string{"": present, missing: ""}); o.code != "" {
				c.unexpected(action, o)
			}
		}
	}
	switch what := c.random.IntN(8); {
	case what < 4:
		subnet, ok := latest(c, &c.subnets)
		if !ok {
			return
		}
		request := params{"SubnetId": subnet.id}
		if what < 3 {
			ip := netip.MustParsePrefix(subnet.ipRange).Addr().As4()
			ip[3] += byte(10 + c.random.IntN(3))
			request["PrivateIps"] = []params{{"IsPrimary": true, "PrivateIp": netip.AddrFrom4(ip).String()}}
		}
		switch o := c.call("CreateNic", request); {
		case o.lost:
			c.strayNics.Add(1)
		case o.code == "5057":
			c.record(o, op{key: subnet.id, do: read, seen: ""})
		case o.code == "4045": // another one has the address
			c.record(o, op{key: subnet.id, do: read, seen: present})
		case o.code == "":
			c.record(o, op{key: subnet.id, do: read, seen: present})
			keep(&c.nics, c.created("CreateNic", o, o.text("Nic", "NicId")))
		default:
			c.unexpected("CreateNic", o)
		}
	case what == 4:
		remove(&c.nics, "DeleteNic", "NicId", "5036")
	case what < 7:
		o := c.call("CreatePublicIp", params{})
		if o.lost {
			c.strayIps.Add(1)
			return
		}
		keep(&c.ips, c.created("CreatePublicIp", o, o.text("PublicIp", "PublicIpId")))
	default:
		remove(&c.ips, "DeletePublicIp", "PublicIpId", "5080")
	}
}

// holdings are what a node says is in the region.
type holdings struct {
	nets    map[string]string // and the tag of each
	subnets map[string]string // and the Net of each
	ranges  map[string]string
	free    map[string]int    // addresses in each Subnet
	nics    map[string]string // and the Subnet and private address of each
	ips     map[string]string // public ones, by ID
	users   map[string]bool
}

// holdings reads all there is through a node, and adds it to the history.
func (r *round) holdings(id int, n *node) holdings {
	c := r.guest(id, n)
	h := holdings{
		nets: map[string]string{}, subnets: map[string]string{}, ranges: map[string]string{}, free: map[string]int{},
		nics: map[string]string{}, ips: map[string]string{}, users: map[string]bool{},
	}
	whole := outcome{called: int64(time.Since(r.begun))}
	c.all("ReadNets", "Nets", params{"Filters": params{"States": []string{"available"}}},
		func(a answer, i int) { h.nets[a.text("Nets", i, "NetId")] = a.text("Nets", i, "Tags", 0, "Value") })
	c.all("ReadSubnets", "Subnets", params{}, func(a answer, i int) {
		id := a.text("Subnets", i, "SubnetId")
		h.subnets[id], h.ranges[id] = a.text("Subnets", i, "NetId"), a.text("Subnets", i, "IpRange")
		h.free[id] = int(a.get("Subnets", i, "AvailableIpsCount").(float64))
	})
	c.all("ReadNics", "Nics", params{}, func(a answer, i int) {
		h.nics[a.text("Nics", i, "NicId")] = a.text("Nics", i, "SubnetId") + " " + a.text("Nics", i, "PrivateIps", 0, "PrivateIp")
	})
	c.all("ReadPublicIps", "PublicIps", params{}, func(a answer, i int) {
		h.ips[a.text("PublicIps", i, "PublicIpId")] = a.text("PublicIps", i, "PublicIp")
	})
	c.all("ReadUsers", "Users", params{}, func(a answer, i int) { h.users[a.text("Users", i, "UserName")] = true })
	c.all("ReadTags", "Tags", params{}, func(a answer, i int) {
		if _, ok := h.nets[a.text("Tags", i, "ResourceId")]; !ok {
			r.t.Errorf("node %d: the tag %v is of nothing", n.process.cmd.Process.Pid, a.get("Tags", i))
		}
	})
	whole.ending = int64(time.Since(r.begun))

	keys := map[string]bool{}
	for _, o := range r.history {
		keys[o.Input.(op).key] = true
	}
	for key := range keys {
		seen := ""
		if net, ok := strings.CutPrefix(key, tagKey("")); ok {
			seen = h.nets[net]
		} else if _, ok := h.nets[key]; ok || h.subnets[key] != "" || h.nics[key] != "" || h.ips[key] != "" || h.users[key] {
			seen = present
		}
		c.record(whole, op{key: key, do: read, seen: seen})
	}
	quotas := c.node.process.asRoot().call(r.t, "ReadQuotas", params{"Filters": params{"QuotaNames": []string{"vpc_limit"}}})
	if used := quotas.get("QuotaTypes", 0, "Quotas", 0, "UsedValue"); used != float64(len(h.nets)) {
		r.t.Errorf("%d Nets are listed, and the quota counts %v", len(h.nets), used)
	}
	return h
}

// all reads a list to its end.
func (c *guest) all(action, name string, request params, each func(a answer, i int)) {
	request["ResultsPerPage"] = 1000
	for seen := 0; ; {
		page := c.node.process.asRoot().call(c.t, action, request)
		items, _ := page.get(name).([]any)
		for i := range items {
			each(page, i)
		}
		seen += len(items)
		token := page.text("NextPageToken")
		switch {
		case token != "":
			request["NextPageToken"] = token
		case page.get("HasMoreItems") == true:
			request["FirstItem"] = seen
		default:
			return
		}
	}
}

// check holds all answers, and what the nodes say now, against each other.
func (r *round) check() {
	r.checkLog()
	var first holdings
	for i, n := range r.victim.nodes {
		h := r.holdings(clients+i, n)
		if i == 0 {
			first = h
		}
		if !maps.Equal(h.nets, first.nets) || !maps.Equal(h.subnets, first.subnets) || !maps.Equal(h.users, first.users) ||
			!maps.Equal(h.free, first.free) || !maps.Equal(h.nics, first.nics) || !maps.Equal(h.ips, first.ips) {
			r.t.Errorf("node %d says that there is %v, and the first one %v", i, h, first)
		}
	}
	stray := func(what string, ids map[string]string, most int64) {
		found := int64(0)
		for id := range ids {
			if !r.made[id] {
				found++
			}
		}
		if found > most {
			r.t.Errorf("%d %s are of unknown origin, and only %d calls that make one were not answered", found, what, most)
		}
	}
	stray("Nets", first.nets, r.strayNets.Load())
	stray("Subnets", first.subnets, r.straySubnets.Load())
	stray("NICs", first.nics, r.strayNics.Load())
	stray("public IPs", first.ips, r.strayIps.Load())
	for what, addresses := range map[string]map[string]string{"NICs": first.nics, "public IPs": first.ips} {
		owners := map[string]string{}
		for id, address := range addresses {
			if owners[address] != "" {
				r.t.Errorf("two %s have the address %s: %s and %s", what, address, id, owners[address])
			}
			owners[address] = id
		}
	}
	for nic, at := range first.nics {
		subnet, ip, _ := strings.Cut(at, " ")
		if first.subnets[subnet] == "" {
			r.t.Errorf("the NIC %s is in the Subnet %s, which is no more", nic, subnet)
		} else if !netip.MustParsePrefix(first.ranges[subnet]).Contains(netip.MustParseAddr(ip)) {
			r.t.Errorf("the NIC %s has %s, outside of %s", nic, ip, first.ranges[subnet])
		}
		first.free[subnet]++
	}
	for subnet, free := range first.free {
		if all := 1<<(32-netip.MustParsePrefix(first.ranges[subnet]).Bits()) - 5; free != all {
			r.t.Errorf("of the %d addresses of %s, %d are free or of NICs that are there", all, subnet, free)
		}
	}
	siblings := map[string][]string{}
	for subnet, net := range first.subnets {
		if _, ok := first.nets[net]; !ok {
			r.t.Errorf("the Subnet %s is in the Net %s, which is no more", subnet, net)
		}
		ipRange := netip.MustParsePrefix(first.ranges[subnet])
		for _, other := range siblings[net] {
			if ipRange.Overlaps(netip.MustParsePrefix(first.ranges[other])) {
				r.t.Errorf("the Subnets %s and %s of the Net %s overlap: %s and %s", subnet, other, net, ipRange, first.ranges[other])
			}
		}
		siblings[net] = append(siblings[net], subnet)
	}
	if err := linearizable(r.history); err != nil {
		r.t.Error(err)
	}
}

// clear removes all there is, so that rounds do not run into quotas.
func (r *round) clear() {
	h := r.holdings(clients, r.victim.nodes[0])
	c := r.victim.nodes[0].process.asRoot()
	for id := range h.nics {
		c.call(r.t, "DeleteNic", params{"NicId": id})
	}
	for id := range h.ips {
		c.call(r.t, "DeletePublicIp", params{"PublicIpId": id})
	}
	for id := range h.subnets {
		c.call(r.t, "DeleteSubnet", params{"SubnetId": id})
	}
	for id := range h.nets {
		c.call(r.t, "DeleteNet", params{"NetId": id})
	}
	for name := range h.users {
		c.call(r.t, "DeleteUser", params{"UserName": name})
	}
}

// The check itself: what it accepts and what it rejects.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	at := func(called, ending int64, o op) porcupine.Operation {
		o.key = "k"
		return porcupine.Operation{Input: o, Call: called, Return: ending}
	}
	const never = math.MaxInt64
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"a read of the last write": {[]porcupine.Operation{at(0, 1, op{do: set, value: "1"}),
			at(2, 3, op{do: read, seen: "1"})}, true},
		"a stale read": {[]porcupine.Operation{at(0, 1, op{do: set, value: "1"}),
			at(2, 3, op{do: set, value: "2"}), at(4, 5, op{do: read, seen: "1"})}, false},
		"a read during the write may be either": {[]porcupine.Operation{at(0, 1, op{do: set, value: "1"}),
			at(2, 9, op{do: set, value: "2"}), at(4, 5, op{do: read, seen: "1"})}, true},
		"two reads that go back": {[]porcupine.Operation{at(0, 9, op{do: set, value: "1"}),
			at(1, 2, op{do: read, seen: "1"}), at(3, 4, op{do: read, seen: ""})}, false},
		"a lost answer to a write that took place": {[]porcupine.Operation{at(0, never, op{do: set, value: "1"}), at(2, 3, op{do: read}),
			at(4, 5, op{do: read, seen: "1"})}, true},
		"a lost answer to a write that did not": {[]porcupine.Operation{at(0, never, op{do: set, value: "1"}), at(2, 3, op{do: read})},
			true},
		"an answered write that is gone": {[]porcupine.Operation{at(0, 1, op{do: set, value: "1"}), at(2, 3, op{do: read})},
			false},
		"a tag of another value is not taken away": {[]porcupine.Operation{at(0, 1, op{do: set, value: "1"}),
			at(2, 3, op{do: unset, value: "2"}), at(4, 5, op{do: read})}, false},
		"of two who make a user one is refused": {[]porcupine.Operation{at(0, 9, op{do: claim}),
			at(0, 9, op{do: claim, seen: present})}, true},
		"two who both made a user":                {[]porcupine.Operation{at(0, 9, op{do: claim}), at(0, 9, op{do: claim})}, false},
		"a refusal, and nobody has made the user": {[]porcupine.Operation{at(0, 1, op{do: claim, seen: present})}, false},
		"a user that was removed can be made again": {[]porcupine.Operation{at(0, 1, op{do: claim}),
			at(2, 3, op{do: release, seen: present}), at(4, 5, op{do: claim})}, true},
		"a resource whose making was answered is there": {[]porcupine.Operation{at(0, 1, op{do: claim}), at(2, 3, op{do: release})}, false},
	} {
		if err := linearizable(c.history); (err == nil) != c.want {
			t.Errorf("%s: %v, want that it is linearizable: %t", name, err, c.want)
		}
	}
}
