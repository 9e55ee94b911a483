package network_test

import (
	"github.com/bastide-cloud/bastide/internal/api"

	"context"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// ask asks the owner of a Net for a peering and answers its ID.
func (r *region) ask(account, source, owner, accepter string) string {
	r.Helper()
	return r.One(account, "CreateNetPeering", asking(source, owner, accepter)).Text("NetPeeringId")
}

func asking(source, owner, accepter string) string {
	return fmt.Sprintf(`{"SourceNetId": %q, "AccepterOwnerId": %q, "AccepterNetId": %q}`, source, owner, accepter)
}

func naming(field, id string) string { return fmt.Sprintf(`{%q: %q}`, field, id) }

// peering reads a peering as an account sees it; nil: it does not.
func (r *region) peering(account, id string) object {
	r.Helper()
	list := r.List(account, "ReadNetPeerings", `{"Filters": {"NetPeeringIds": [%q]}}`, id)
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// isPeering checks the state of a peering in the eyes of accounts.
func (r *region) isPeering(id string, want network.NetPeeringName, accounts ...string) {
	r.Helper()
	for _, account := range accounts {
		p := r.peering(account, id)
		if p == nil {
			r.Errorf("%s does not see %s, which should be %s", account, id, want)
		} else if got := p["State"].(map[string]any)["Name"]; got != string(want) {
			r.Errorf("%s sees %s %v, want %s", account, id, got, want)
		}
	}
}

func TestPeeringOfTwoAccounts(t *testing.T) {
	t.Parallel()
	r := setup(t)
	nets := map[string]string{alice: r.net(alice, "10.0.0.0/16"), bob: r.net(bob, "172.16.0.0/16")}
	made := r.One(alice, "CreateNetPeering", asking(nets[alice], bob, nets[bob]))
	want := `{"NetPeeringId": %q, "ExpirationDate": "2026-11-27T10:00:00.000Z", "Tags": [],
		"SourceNet": {"AccountId": %q, "NetId": %q, "IpRange": "10.0.0.0/16"},
		"AccepterNet": {"AccountId": %q, "NetId": %q%s},
		"State": {"Name": "pending-acceptance", "Message": "Pending acceptance by %[4]s"}}`
	const withRange = `, "IpRange": "172.16.0.0/16"`
	pending := func(ipRange string) string {
		return fmt.Sprintf(want, made["NetPeeringId"], alice, nets[alice], bob, nets[bob], ipRange)
	}
	peering := naming("NetPeeringId", made.Text("NetPeeringId"))
	// Bob knows the range of his Net, and alice is not told it yet.
	r.Shows(made, pending(""))
	r.Shows(r.peering(alice, made.Text("NetPeeringId")), pending(""))
	r.Shows(r.peering(bob, made.Text("NetPeeringId")), pending(withRange))
	for _, account := range []string{alice, bob} {
		r.Refuse(apierror.NetInUse, account, "DeleteNet", naming("NetId", nets[account]))
	}
	r.Refuse(apierror.NotAuthorized, alice, "AcceptNetPeering", peering)
	r.Refuse(apierror.NotAuthorized, alice, "RejectNetPeering", peering)
	r.Refuse(apierror.NotAuthorized, bob, "DeleteNetPeering", peering)
	r.Refuse(apierror.NetPeeringNotFound, carol, "AcceptNetPeering", peering)
	r.Refuse(apierror.NetPeeringNotFound, carol, "RejectNetPeering", peering)
	r.Refuse(apierror.NetPeeringNotFound, carol, "DeleteNetPeering", peering)
	r.Selects(r.List(carol, "ReadNetPeerings", `{}`), "NetPeeringId")

	// Each account has tags of its own, and keeps them.
	r.Tag(alice, made.Text("NetPeeringId"), api.Tag{Key: "to", Value: "bob"})
	r.Tag(bob, made.Text("NetPeeringId"), api.Tag{Key: "from", Value: "alice"})
	accepted := r.One(bob, "AcceptNetPeering", peering)
	want = fmt.Sprintf(`{"NetPeeringId": %q, "Tags": [{"Key": "from", "Value": "alice"}],
		"SourceNet": {"AccountId": %q, "NetId": %q, "IpRange": "10.0.0.0/16"},
		"AccepterNet": {"AccountId": %q, "NetId": %q, "IpRange": "172.16.0.0/16"},
		"State": {"Name": "active", "Message": "Active"}}`, made["NetPeeringId"], alice, nets[alice], bob, nets[bob])
	r.Shows(accepted, want)
	r.Shows(r.peering(bob, made.Text("NetPeeringId")), want)
	r.isPeering(made.Text("NetPeeringId"), network.PeeringActive, alice)
	r.Selects(r.List(alice, "ReadNetPeerings", `{"Filters": {"Tags": ["to=bob"]}}`), "NetPeeringId", made.Text("NetPeeringId"))
	r.Selects(r.List(alice, "ReadNetPeerings", `{"Filters": {"TagKeys": ["from"]}}`), "NetPeeringId")
	for _, account := range []string{alice, bob} {
		r.Refuse(apierror.NetInUse, account, "DeleteNet", naming("NetId", nets[account]))
	}

	// Either may end it. Then it keeps no Net any more.
	r.Call(bob, "DeleteNetPeering", peering)
	r.isPeering(made.Text("NetPeeringId"), network.PeeringDeleted, alice, bob)
	for _, account := range []string{alice, bob} {
		r.Refuse(apierror.NetPeeringNotFound, account, "DeleteNetPeering", peering)
		r.Call(account, "DeleteNet", naming("NetId", nets[account]))
	}
	r.isPeering(made.Text("NetPeeringId"), network.PeeringDeleted, alice, bob)
}

func TestPeeringOfOneAccount(t *testing.T) {
	t.Parallel()
	r := setup(t)
	one, other := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16")
	made := r.One(alice, "CreateNetPeering", `{"SourceNetId": %q, "AccepterNetId": %q}`, one, other)
	if got := made["AccepterNet"].(map[string]any)["AccountId"]; got != alice {
		t.Errorf("the accepter is %v", got)
	}
	r.Selects(r.List(alice, "ReadNetPeerings", `{}`), "NetPeeringId", made.Text("NetPeeringId"))
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", naming("NetId", one))
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", naming("NetId", other))
	r.Call(alice, "AcceptNetPeering", naming("NetPeeringId", made.Text("NetPeeringId")))
	r.isPeering(made.Text("NetPeeringId"), network.PeeringActive, alice)
	r.Call(alice, "DeleteNetPeering", naming("NetPeeringId", made.Text("NetPeeringId")))
	r.Call(alice, "DeleteNet", naming("NetId", one))
	r.Call(alice, "DeleteNet", naming("NetId", other))
}

func TestPeeringRefusals(t *testing.T) {
	t.Parallel()
	r := setup(t)
	net, bobs := r.net(alice, "10.0.0.0/16"), r.net(bob, "10.2.0.0/16")
	const nobody = "vpc-00000000"
	tests := []struct {
		name, body string
		want       apierror.Code
	}{
		{"no source", naming("AccepterNetId", bobs), apierror.MissingParameter},
		{"no accepter", naming("SourceNetId", net), apierror.MissingParameter},
		{"a Net with itself", asking(net, "", net), apierror.SameNet},
		{"no Net with itself", asking(nobody, "", nobody), apierror.SameNet},
		{"a Net with itself, by its owner", asking(net, alice, net), apierror.SameNet},
		{"from no Net", asking(nobody, "", net), apierror.NetNotFound},
		{"from another's Net", asking(bobs, "", net), apierror.NetNotFound},
		{"from another's Net to itself", asking(bobs, bob, bobs), apierror.NetNotFound},
		{"to no Net", asking(net, "", nobody), apierror.NetNotFound},
		{"to another's Net without its owner", asking(net, "", bobs), apierror.NetNotFound},
		{"owner of the wrong form", asking(net, "bob", bobs), apierror.MalformedID},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { r.Refuse(test.want, alice, "CreateNetPeering", test.body) })
	}
	for _, action := range []string{"AcceptNetPeering", "RejectNetPeering", "DeleteNetPeering"} {
		r.Refuse(apierror.NetPeeringNotFound, alice, action, naming("NetPeeringId", "pcx-00000000"))
	}
}

// An account that does not exist is not looked into: that would keep a place
// for it in memory.
func TestPeeringWithNobodyKeepsNoPlace(t *testing.T) {
	t.Parallel()
	r := setup(t)
	const nobody = "999999999999"
	net := r.net(alice, "10.0.0.0/16")
	peering := r.ask(alice, net, nobody, net)
	r.Call(alice, "DeleteNetPeering", naming("NetPeeringId", peering))
	// A transaction that reaches an account which is not in memory runs twice.
	for want := 2; want >= 1; want-- {
		runs := 0
		r.Update(alice, func(tx *resource.Tx) error {
			runs++
			network.Nets.Has(tx.In(nobody), id.Net(net))
			return nil
		})
		if runs != want {
			t.Errorf("a transaction over the account runs %d times, want %d", runs, want)
		}
	}
}

// moves are ways for a peering between alice, who asks, and bob to come to a
// state.
var moves = map[network.NetPeeringName]func(r *region, peering string){
	network.PeeringPending:  func(*region, string) {},
	network.PeeringActive:   func(r *region, p string) { r.Call(bob, "AcceptNetPeering", p) },
	network.PeeringRejected: func(r *region, p string) { r.Call(bob, "RejectNetPeering", p) },
	network.PeeringExpired:  func(r *region, _ string) { r.Clock.Advance(7 * 24 * time.Hour) },
	network.PeeringDeleted:  func(r *region, p string) { r.Call(alice, "DeleteNetPeering", p) },
}

// A call that does not fit the state of a peering is refused.
func TestPeeringTransitions(t *testing.T) {
	t.Parallel()
	allowed := map[string][]network.NetPeeringName{
		"AcceptNetPeering": {network.PeeringPending},
		"RejectNetPeering": {network.PeeringPending},
		"DeleteNetPeering": {network.PeeringPending, network.PeeringActive},
	}
	callers := map[string]string{"AcceptNetPeering": bob, "RejectNetPeering": bob, "DeleteNetPeering": alice}
	for action, states := range allowed {
		for state, move := range moves {
			t.Run(action+" "+string(state), func(t *testing.T) {
				t.Parallel()
				r := setup(t)
				peering := r.ask(alice, r.net(alice, "10.0.0.0/16"), bob, r.net(bob, "10.1.0.0/16"))
				move(r, naming("NetPeeringId", peering))
				r.isPeering(peering, state, alice, bob)
				if slices.Contains(states, state) {
					r.Call(callers[action], action, naming("NetPeeringId", peering))
					return
				}
				want := apierror.InvalidTransition
				if action == "DeleteNetPeering" && state == network.PeeringDeleted {
					want = apierror.NetPeeringNotFound
				}
				r.Refuse(want, callers[action], action, naming("NetPeeringId", peering))
				r.isPeering(peering, state, alice, bob)
			})
		}
	}
}

// What has ended is shown for an hour.
func TestEndedPeeringsAreForgotten(t *testing.T) {
	t.Parallel()
	for _, state := range []network.NetPeeringName{network.PeeringRejected, network.PeeringExpired, network.PeeringDeleted} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			loops, end := r.run(sim.New(r.Clock.Now, 0))
			defer end()
			peering := r.ask(alice, r.net(alice, "10.0.0.0/16"), bob, r.net(bob, "10.1.0.0/16"))
			moves[state](r, naming("NetPeeringId", peering))
			r.settle(loops)
			r.Clock.Advance(time.Hour - time.Second)
			r.settle(loops)
			r.isPeering(peering, state, alice, bob)
			r.Clock.Advance(time.Second)
			r.settle(loops)
			for _, account := range []string{alice, bob} {
				if p := r.peering(account, peering); p != nil {
					t.Errorf("after an hour %s sees %v", account, p)
				}
				r.Refuse(apierror.NetPeeringNotFound, account, "DeleteNetPeering", naming("NetPeeringId", peering))
			}
		})
	}
}

func TestPeeringExpires(t *testing.T) {
	t.Parallel()
	r := setup(t)
	loops, end := r.run(sim.New(r.Clock.Now, 0))
	defer end()
	nets := map[string]string{alice: r.net(alice, "10.0.0.0/16"), bob: r.net(bob, "10.1.0.0/16")}
	peering := r.ask(alice, nets[alice], bob, nets[bob])
	if next := r.settle(loops); next != 0 {
		t.Errorf("a request makes the loops wait for %s", next)
	}
	r.Clock.Advance(7*24*time.Hour - time.Millisecond)
	r.settle(loops)
	r.isPeering(peering, network.PeeringPending, alice, bob)
	r.Clock.Advance(time.Millisecond)

	// From that moment it is expired to whoever looks, and filters agree.
	r.isPeering(peering, network.PeeringExpired, alice, bob)
	r.Selects(r.List(bob, "ReadNetPeerings", `{"Filters": {"StateNames": ["expired"]}}`), "NetPeeringId", peering)
	r.Selects(r.List(bob, "ReadNetPeerings", `{"Filters": {"StateNames": ["pending-acceptance"]}}`), "NetPeeringId")
	r.Refuse(apierror.InvalidTransition, bob, "AcceptNetPeering", naming("NetPeeringId", peering))

	// A sweep notes it, in both accounts, and then the Nets may go.
	r.Clock.Advance(5 * time.Minute)
	r.settle(loops)
	r.isPeering(peering, network.PeeringExpired, alice, bob)
	if got := r.peering(alice, peering)["ExpirationDate"]; got != "2026-11-27T10:00:00.000Z" {
		t.Errorf("it has expired at %v", got)
	}
	for account, net := range nets {
		r.Call(account, "DeleteNet", naming("NetId", net))
	}
}

// A Net can go from the very moment, too: it does not wait for the sweep.
func TestExpiredPeeringsKeepNoNets(t *testing.T) {
	t.Parallel()
	r := setup(t)
	nets := map[string]string{alice: r.net(alice, "10.0.0.0/16"), bob: r.net(bob, "10.1.0.0/16")}
	peering := r.ask(alice, nets[alice], bob, nets[bob])
	r.Clock.Advance(7*24*time.Hour - time.Millisecond)
	r.Refuse(apierror.NetInUse, alice, "DeleteNet", naming("NetId", nets[alice]))
	r.Clock.Advance(time.Millisecond)
	r.Call(alice, "DeleteNet", naming("NetId", nets[alice]))
	r.isPeering(peering, network.PeeringExpired, alice, bob)
	r.Call(bob, "DeleteNet", naming("NetId", nets[bob]))
}

func TestPeeringOfOverlappingNetsFails(t *testing.T) {
	t.Parallel()
	for name, ranges := range map[string][2]string{
		"the same":            {"10.0.0.0/16", "10.0.0.0/16"},
		"the accepter inside": {"10.0.0.0/16", "10.0.1.0/24"},
		"the source inside":   {"10.0.1.0/24", "10.0.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			const failure = `{"Name": "failed", "Message": "Failed: the ranges of the two Nets overlap"}`
			nets := map[string]string{alice: r.net(alice, ranges[0]), bob: r.net(bob, ranges[1])}

			// At once if both are the caller's…
			own := r.net(alice, ranges[1])
			failed := r.One(alice, "CreateNetPeering", asking(nets[alice], "", own))
			r.Shows(failed["State"].(map[string]any), failure)
			r.isPeering(failed.Text("NetPeeringId"), network.PeeringFailed, alice)
			r.Refuse(apierror.InvalidTransition, alice, "DeleteNetPeering", naming("NetPeeringId", failed.Text("NetPeeringId")))
			r.Call(alice, "DeleteNet", naming("NetId", own))

			// …else when it is accepted: alice is not told what the range of bob's is.
			peering := r.ask(alice, nets[alice], bob, nets[bob])
			r.isPeering(peering, network.PeeringPending, alice, bob)
			accepted := r.One(bob, "AcceptNetPeering", naming("NetPeeringId", peering))
			r.Shows(accepted["State"].(map[string]any), failure)
			r.isPeering(peering, network.PeeringFailed, alice, bob)
			if told := r.peering(alice, peering)["AccepterNet"].(map[string]any)["IpRange"]; told != nil {
				t.Errorf("alice is told the range %v", told)
			}
			r.Refuse(apierror.InvalidTransition, bob, "AcceptNetPeering", naming("NetPeeringId", peering))
			for account, net := range nets {
				r.Refuse(apierror.InvalidTransition, account, "DeleteNetPeering", naming("NetPeeringId", peering))
				r.Call(account, "DeleteNet", naming("NetId", net))
			}
		})
	}
}

// A request does not tell whether another account has the Net that it names, or
// whether there is such an account: all look the same from the beginning to the
// end, whatever the caller does with them.
func TestPeeringRequestsTellNothing(t *testing.T) {
	t.Parallel()
	for name, theirs := range map[string]func(r *region) (owner, net string){
		"no Net":            func(*region) (string, string) { return bob, "vpc-00000000" },
		"another owner":     func(r *region) (string, string) { return carol, r.net(bob, "10.1.0.0/16") },
		"no account":        func(*region) (string, string) { return "999999999999", "vpc-00000000" },
		"overlapping range": func(r *region) (string, string) { return bob, r.net(bob, "10.0.0.0/16") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// story is what alice sees of a request to another account.
			story := func(theirs func(r *region) (owner, net string)) (seen []string) {
				r := setup(t, map[string]int{"networklink_request_limit": 2})
				owner, net := theirs(r)
				own, second := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.2.0.0/16")
				see := func(account, action, body string) object {
					answer, err := r.Try(account, action, body)
					text := fmt.Sprint(action, " ", answer, err)
					for _, said := range []string{owner, net, own, second} {
						text = strings.ReplaceAll(text, said, "ID")
					}
					seen = append(seen, regexp.MustCompile("pcx-[0-9a-f]{8}").ReplaceAllString(text, "PEERING"))
					return answer
				}
				ask := func(from string) string {
					return object(see(alice, "CreateNetPeering", asking(from, owner, net))["NetPeering"].(map[string]any)).Text("NetPeeringId")
				}
				first := ask(own)
				see(alice, "CreateNetPeering", asking(own, owner, net))
				other := ask(second)
				see(alice, "CreateNetPeering", asking(own, owner, "vpc-11111111"))
				see(alice, "ReadNetPeerings", `{}`)
				see(alice, "ReadNetPeerings", `{"Filters": {"AccepterNetIpRanges": ["10.0.0.0/16", "10.1.0.0/16"]}}`)
				for _, action := range []string{"AcceptNetPeering", "RejectNetPeering"} {
					see(alice, action, naming("NetPeeringId", first))
				}
				see(alice, "DeleteNet", naming("NetId", own))
				see(alice, "DeleteNetPeering", naming("NetPeeringId", other))
				see(alice, "DeleteNetPeering", naming("NetPeeringId", other))
				r.Clock.Advance(7 * 24 * time.Hour)
				see(alice, "ReadNetPeerings", `{}`)
				see(alice, "DeleteNetPeering", naming("NetPeeringId", first))
				see(alice, "DeleteNet", naming("NetId", own))
				see(alice, "ReadNetPeerings", `{}`)
				return seen
			}
			want := story(func(r *region) (string, string) { return bob, r.net(bob, "10.1.0.0/16") })
			if diff := cmp.Diff(want, story(theirs)); diff != "" {
				t.Errorf("it is told apart from a request to a Net that is there (-there +this):\n%s", diff)
			}
		})
	}
}

// Two Nets are joined once.
func TestPeeringTwice(t *testing.T) {
	t.Parallel()
	for _, theirs := range []string{alice, bob} {
		t.Run("with "+theirs, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			one, other, third := r.net(alice, "10.0.0.0/16"), r.net(theirs, "10.1.0.0/16"), r.net(theirs, "10.2.0.0/16")
			first := r.ask(alice, one, theirs, other)
			r.Refuse(apierror.PeeringExists, alice, "CreateNetPeering", asking(one, theirs, other))
			unrelated := r.ask(alice, one, theirs, third)

			// Both may ask. When one accepts, the other request is superfluous.
			back := r.ask(theirs, other, alice, one)
			r.Call(theirs, "AcceptNetPeering", naming("NetPeeringId", first))
			r.isPeering(first, network.PeeringActive, alice, theirs)
			r.isPeering(back, network.PeeringRejected, alice, theirs)
			r.isPeering(unrelated, network.PeeringPending, alice, theirs)
			r.Refuse(apierror.PeeringExists, alice, "CreateNetPeering", asking(one, theirs, other))

			// The same the other way round is rejected from the beginning.
			before := r.Revision(bob)
			again := r.One(theirs, "CreateNetPeering", asking(other, alice, one))
			r.isPeering(again.Text("NetPeeringId"), network.PeeringRejected, theirs)
			if theirs == bob && r.peering(alice, again.Text("NetPeeringId")) != nil {
				t.Error("alice hears of a request that was never made")
			}
			if theirs == alice && r.Revision(bob) != before {
				t.Error("bob's account has changed")
			}

			// What has ended is in nobody's way.
			r.Call(alice, "DeleteNetPeering", naming("NetPeeringId", first))
			r.isPeering(r.ask(alice, one, theirs, other), network.PeeringPending, alice, theirs)
		})
	}
}

func TestPeeringQuotas(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"networklink_request_limit": 2, "networklink_limit": 1})
	net, bobs := r.net(alice, "10.0.0.0/16"), []string{r.net(bob, "10.1.0.0/16"), r.net(bob, "10.2.0.0/16"), r.net(bob, "10.3.0.0/16")}
	first, second := r.ask(alice, net, bob, bobs[0]), r.ask(alice, net, bob, bobs[1])
	r.Refuse(apierror.TooManyPeeringRequests, alice, "CreateNetPeering", asking(net, bob, bobs[2]))
	r.uses(alice, "networklink_request_limit", 2)
	r.uses(bob, "networklink_request_limit", 0) // what others ask is not counted
	r.uses(alice, "networklink_limit", 0)

	r.Call(bob, "AcceptNetPeering", naming("NetPeeringId", first))
	for _, account := range []string{alice, bob} {
		r.uses(account, "networklink_limit", 1)
	}
	r.uses(alice, "networklink_request_limit", 1)
	r.Refuse(apierror.TooManyPeerings, bob, "AcceptNetPeering", naming("NetPeeringId", second))
	r.isPeering(second, network.PeeringPending, alice, bob)
	back := r.ask(bob, bobs[2], alice, net)
	r.Refuse(apierror.TooManyPeerings, alice, "AcceptNetPeering", naming("NetPeeringId", back))

	r.Call(bob, "DeleteNetPeering", naming("NetPeeringId", first))
	r.Call(bob, "AcceptNetPeering", naming("NetPeeringId", second))

	// A request whose time has passed counts no more.
	r.Clock.Advance(7 * 24 * time.Hour)
	r.uses(bob, "networklink_request_limit", 0)
}

// uses checks what a meter of a quota reads.
func (r *region) uses(account, quota string, want int) {
	r.Helper()
	err := r.DB.View(context.Background(), resource.Caller{Account: account}, func(tx *resource.Tx) error {
		for _, m := range network.Meters() {
			if m.Quota != quota {
				continue
			}
			for _, got := range m.Read(tx) {
				if got != want {
					r.Errorf("%s uses %d of %s, want %d", account, got, quota, want)
				}
			}
			return nil
		}
		return fmt.Errorf("nothing meters %s", quota)
	})
	if err != nil {
		r.Fatal(err)
	}
}

func TestPeeringFilters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	one, two, bobs := r.net(alice, "10.0.0.0/16"), r.net(alice, "10.1.0.0/16"), r.net(bob, "10.2.0.0/16")
	first := r.ask(alice, one, "", two)
	r.Clock.Advance(time.Hour)
	second, third := r.ask(alice, one, bob, bobs), r.ask(bob, bobs, alice, two)
	r.Call(alice, "AcceptNetPeering", naming("NetPeeringId", third))
	r.Tag(alice, third, api.Tag{Key: "env", Value: "test"})
	tests := []struct {
		filters string
		want    []string
	}{
		{`{}`, []string{first, second, third}},
		{`{"AccepterNetAccountIds": ["` + bob + `"]}`, []string{second}},
		{`{"AccepterNetAccountIds": ["` + alice + `"]}`, []string{first, third}},
		{`{"AccepterNetIpRanges": ["10.2.0.0/16"]}`, nil}, // a range that alice is not told yet
		{`{"AccepterNetIpRanges": ["10.1.0.0/16"]}`, []string{first, third}},
		{`{"AccepterNetNetIds": ["` + two + `"]}`, []string{first, third}},
		{`{"ExpirationDates": ["2026-11-27T10:00:00.000Z"]}`, []string{first}},
		{`{"ExpirationDates": ["2026-11-27T11:00:00.000Z", "2026-11-27T10:00:00.001Z"]}`, []string{second}},
		{`{"NetPeeringIds": ["` + third + `", "pcx-00000000"]}`, []string{third}},
		{`{"SourceNetAccountIds": ["` + bob + `"]}`, []string{third}},
		{`{"SourceNetIpRanges": ["10.0.0.0/16", "10.1.0.0/16"]}`, []string{first, second}},
		{`{"SourceNetNetIds": ["` + bobs + `"]}`, []string{third}},
		{`{"StateMessages": ["Active"]}`, []string{third}},
		{`{"StateMessages": ["Pending acceptance by ` + bob + `"]}`, []string{second}},
		{`{"StateNames": ["pending-acceptance"]}`, []string{first, second}},
		{`{"StateNames": ["deleted", "active"], "SourceNetAccountIds": ["` + alice + `"]}`, nil},
		{`{"TagKeys": ["env"]}`, []string{third}},
		{`{"TagValues": ["test"]}`, []string{third}},
		{`{"Tags": ["env=test"]}`, []string{third}},
	}
	for _, test := range tests {
		t.Run(test.filters, func(t *testing.T) {
			r.Selects(r.List(alice, "ReadNetPeerings", `{"Filters": `+test.filters+`}`), "NetPeeringId", test.want...)
		})
	}
	r.Selects(r.List(bob, "ReadNetPeerings", `{}`), "NetPeeringId", second, third)
}

// Both Nets learn from the driver when they are joined and when they are not.
func TestPeeringInTheWorld(t *testing.T) {
	t.Parallel()
	r := setup(t)
	drivers := sim.New(r.Clock.Now, 0)
	loops, end := r.run(drivers)
	defer end()
	nets := map[string]string{alice: r.net(alice, "10.0.0.0/16"), bob: r.net(bob, "10.1.0.0/16")}
	peering := r.ask(alice, nets[alice], bob, nets[bob])
	joined := func() map[string]driver.Peering {
		r.settle(loops)
		has, err := drivers.ObserveNets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]driver.Peering{}
		for _, n := range has {
			for _, p := range n.Peerings {
				found[n.Account+" "+n.ID] = p
			}
		}
		return found
	}
	if got := joined(); len(got) > 0 {
		t.Errorf("a request joins %v", got)
	}
	r.Call(bob, "AcceptNetPeering", naming("NetPeeringId", peering))
	want := map[string]driver.Peering{
		alice + " " + nets[alice]: {ID: peering, Account: bob, Net: nets[bob], IpRange: netip.MustParsePrefix("10.1.0.0/16")},
		bob + " " + nets[bob]:     {ID: peering, Account: alice, Net: nets[alice], IpRange: netip.MustParsePrefix("10.0.0.0/16")},
	}
	if got := joined(); !maps.Equal(got, want) {
		t.Errorf("the driver has %v, want %v", got, want)
	}
	r.Call(alice, "DeleteNetPeering", naming("NetPeeringId", peering))
	if got := joined(); len(got) > 0 {
		t.Errorf("a deleted peering joins %v", got)
	}
}

// Whoever is first decides: a Net that is asked for stays, and one that goes is
// asked for in vain.
func TestPeeringWithANetThatGoes(t *testing.T) {
	t.Parallel()
	for range 20 {
		r := setup(t)
		net, bobs := r.net(alice, "10.0.0.0/16"), r.net(bob, "10.1.0.0/16")
		var asked, deleted error
		var both sync.WaitGroup
		both.Go(func() { _, asked = r.Try(alice, "CreateNetPeering", asking(net, bob, bobs)) })
		both.Go(func() { _, deleted = r.Try(bob, "DeleteNet", naming("NetId", bobs)) })
		both.Wait()
		if asked != nil || deleted != nil && !apierror.NetInUse.Is(deleted) {
			t.Fatalf("asking ends with %v, and deleting the Net with %v", asked, deleted)
		}
		if listed := r.List(bob, "ReadNetPeerings", `{}`); (len(listed) == 1) != (deleted != nil) {
			t.Fatalf("deleting the Net ends with %v, and bob is asked for %v", deleted, listed)
		}
	}
}

// agree checks that two accounts keep the same of their peerings, apart from a
// range that is not told yet, that a living one keeps their Nets, and that no two
// join the same Nets.
func (r *region) agree(peerings map[string]bool) {
	r.Helper()
	for peering := range peerings {
		one, other := r.peering(alice, peering), r.peering(bob, peering)
		if one == nil || other == nil {
			r.Errorf("alice sees %v, and bob %v", one, other)
			continue
		}
		for _, p := range []object{one, other} {
			accepter := p["AccepterNet"].(map[string]any)
			if accepter["IpRange"] == nil && p["State"].(map[string]any)["Name"] == "active" {
				r.Errorf("an active peering has no range: %v", p)
			}
			delete(accepter, "IpRange")
		}
		if diff := cmp.Diff(one, other); diff != "" {
			r.Errorf("(-alice +bob)\n%s", diff)
		}
	}
	for _, account := range []string{alice, bob} {
		err := r.DB.View(context.Background(), resource.Caller{Account: account}, func(tx *resource.Tx) error {
			joined := map[[2]id.Net]bool{}
			for p := range network.NetPeerings.All(tx) {
				if len(p.OwnNets) != 1 || !network.Nets.Has(tx, p.OwnNets[0]) {
					r.Errorf("the %s peering %s keeps %v", p.State.Name, p.NetPeeringId, p.OwnNets)
				}
				nets := [2]id.Net{p.SourceNet.NetId, p.AccepterNet.NetId}
				slices.Sort(nets[:])
				if p.State.Name == network.PeeringActive && joined[nets] {
					r.Errorf("%v are joined twice", nets)
				}
				joined[nets] = joined[nets] || p.State.Name == network.PeeringActive
			}
			return nil
		})
		if err != nil {
			r.Fatal(err)
		}
	}
}

// Whatever two accounts do with each other's requests, they agree.
func TestPeeringsAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := open(t, nil, nil)
		defer r.DB.Close()
		r.welcome()
		nets := map[string][]string{}
		for i := range 3 {
			nets[alice] = append(nets[alice], r.net(alice, fmt.Sprintf("10.%d.0.0/16", i)))
			nets[bob] = append(nets[bob], r.net(bob, fmt.Sprintf("10.%d.0.0/16", i+2))) // two overlap
		}
		who := rapid.SampledFrom([]string{alice, bob})
		shared := map[string]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				account := who.Draw(t, "who")
				other := map[string]string{alice: bob, bob: alice}[account]
				body := asking(rapid.SampledFrom(nets[account]).Draw(t, "from"), other, rapid.SampledFrom(nets[other]).Draw(t, "to"))
				answer, err := r.Try(account, "CreateNetPeering", body)
				if err != nil && !apierror.PeeringExists.Is(err) {
					t.Fatal(err)
				}
				if err == nil {
					p := answer["NetPeering"].(map[string]any)
					if p["State"].(map[string]any)["Name"] == "pending-acceptance" {
						shared[p["NetPeeringId"].(string)] = true
					}
				}
			},
			"answer": func(t *rapid.T) {
				if len(shared) == 0 {
					t.Skip("nobody has asked")
				}
				action := rapid.SampledFrom([]string{"AcceptNetPeering", "AcceptNetPeering", "RejectNetPeering", "DeleteNetPeering"}).Draw(t, "action")
				var all []string
				for p := range shared {
					all = append(all, p)
				}
				slices.Sort(all)
				_, err := r.Try(who.Draw(t, "who"), action, naming("NetPeeringId", rapid.SampledFrom(all).Draw(t, "which")))
				if err != nil && !apierror.InvalidTransition.Is(err) && !apierror.NotAuthorized.Is(err) && !apierror.NetPeeringNotFound.Is(err) {
					t.Fatal(err)
				}
			},
			"": func(*rapid.T) { r.agree(shared) },
		})
	})
}
