package acceptance

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	nethttp "net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// forEach runs a test for each registered action, one after the other, in one
// region.
func forEach(t *testing.T, test func(t *testing.T, w *testRegion, a api.Action)) {
	t.Helper()
	w := newTestRegion(t)
	for _, a := range w.API.Actions() {
		w.run(t, a.Name, func(t *testing.T) { test(t, w, a) })
	}
}

// forEachFamily runs a test for the actions of each family, in a driver of their
// own. Loops look at all accounts whenever the clock moves, and the end of a test
// at all that was said: many accounts in one region take far longer than a few
// each in many regions.
func forEachFamily(t *testing.T, test func(t *testing.T, w *testRegion, actions []api.Action)) {
	t.Helper()
	families := map[string][]api.Action{}
	for _, a := range newTestRegion(t).API.Actions() {
		families[a.Family] = append(families[a.Family], a)
	}
	for family, actions := range families {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			test(t, newTestRegion(t), actions)
		})
	}
}

// run runs a part of a test.
func (w *testRegion) run(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		defer w.lend(t)()
		test(t)
	})
}

func TestUnsignedCallsAreRefused(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, w *testRegion, a api.Action) {
		wantStatus, wantCode := nethttp.StatusUnauthorized, "1"
		if a.Auth.AsksNobody() {
			wantStatus, wantCode = nethttp.StatusOK, ""
		}
		if got := w.unsigned().call(a.Name, "{}"); got.status != wantStatus || got.code() != wantCode {
			t.Errorf("unsigned: %d, code %s, want %d, code %s", got.status, got.code(), wantStatus, wantCode)
		}
	})
}

// An action that needs no authentication answers a caller with wrong credentials
// as it answers a stranger.
func TestWrongCredentialsWhereNoneAreNeeded(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, w *testRegion, a api.Action) {
		if !a.Auth.AsksNobody() {
			return
		}
		p, stranger := w.person("alice"), w.unsigned()
		want := stranger.must(a.Name, "{}").shape("no id")
		late := w.as("alice")
		late.off = -time.Hour
		for what, c := range map[string]client{
			"wrong signature": stranger.signing(p.key, "guess"), "unknown key": stranger.signing("AKIA0000000000000000", "guess"),
			"wrong password": stranger.login(p.email, "guess"), "unknown login": stranger.login("nobody@example.com", "guess"),
			"expired": late, "a key alone": stranger.with("Authorization", p.key), "another scheme": stranger.with("Authorization", "Bearer x"),
			"no signature": stranger.with("Authorization", "AWS4-HMAC-SHA256 x"), "no password": stranger.with("Authorization", "Basic x"),
		} {
			if got := c.call(a.Name, "{}").shape("no id"); got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
	})
}

func TestPasswordsAreAcceptedWhereTheContractSays(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	for _, a := range w.API.Actions() {
		w.run(t, a.Name, func(t *testing.T) {
			request := w.minimal(a, has)
			request["DryRun"] = true
			got := w.unsigned().login(w.person("alice").email, everybodys).call(a.Name, jsonOf(request))
			if a.Auth == api.Signed && (got.status != nethttp.StatusUnauthorized || got.code() != "9") {
				t.Errorf("a password on an action that is signed: %d %s", got.status, got.text)
			}
			if a.Auth != api.Signed && got.status != nethttp.StatusOK {
				t.Errorf("a password: %d %s", got.status, got.text)
			}
		})
	}
}

// sensitive are the actions that hand out or change credentials, or who may
// call. A new one that belongs here is marked with [api.Action.AsSensitive].
var sensitive = strings.Fields(`
	CreateAccessKey DeleteAccessKey ReadAccessKeys ReadSecretAccessKey UpdateAccessKey
	CreateApiAccessRule DeleteApiAccessRule ReadApiAccessRules UpdateApiAccessRule
	CreateCa DeleteCa ReadCas UpdateCa ReadApiAccessPolicy UpdateApiAccessPolicy
	UpdateAccount CreateUser UpdateUser DeleteUser
	CreateUserGroup UpdateUserGroup DeleteUserGroup AddUserToUserGroup RemoveUserFromUserGroup
	CreatePolicy DeletePolicy CreatePolicyVersion SetDefaultPolicyVersion DeletePolicyVersion
	LinkPolicy UnlinkPolicy LinkManagedPolicyToUserGroup UnlinkManagedPolicyFromUserGroup
	PutUserPolicy DeleteUserPolicy PutUserGroupPolicy DeleteUserGroupPolicy
	EnableOutscaleLogin DisableOutscaleLogin EnableOutscaleLoginForUsers DisableOutscaleLoginForUsers
	EnableOutscaleLoginPerUsers DisableOutscaleLoginPerUsers`)

// A trusted session replaces the client certificate on all actions but the
// sensitive ones.
func TestATrustedSessionChangesNoCredentials(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	ca := newAuthority(t, "Example authority")
	w.update("alice", func(tx *resource.Tx) error {
		made := &iam.Ca{Pem: ca.pem()}
		if err := iam.Cas.Insert(tx, made); err != nil {
			return err
		}
		for rule := range iam.ApiAccessRules.All(tx) {
			rule.IpRanges, rule.CaIds, rule.Cns = nil, []id.Ca{made.CaId}, nil
			if err := iam.ApiAccessRules.Put(tx, rule); err != nil {
				return err
			}
		}
		account, err := iam.Accounts.Get(tx, id.Account(w.person("alice").account))
		if err != nil {
			return err
		}
		account.Policy.RequireTrustedEnv = true
		return iam.Accounts.Put(tx, account)
	})
	for _, a := range w.API.Actions() {
		w.run(t, a.Name, func(t *testing.T) {
			want := ""
			if slices.Contains(sensitive, a.Name) {
				want = "14"
			}
			request := w.minimal(a, has)
			request["DryRun"] = true
			if got := w.as("alice").call(a.Name, jsonOf(request)); got.code() != want {
				t.Errorf("without the client certificate: %d %s, want code %q", got.status, got.text, want)
			}
			if a.Auth == api.SignedOrPassword && !slices.Contains(sensitive, a.Name) {
				t.Error("it takes a password, by which an account without credentials gets some, and is not sensitive")
			}
		})
	}
}

func TestUnknownParametersAreNamed(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	for _, a := range w.API.Actions() {
		structs := []parameter{{}}
		for _, p := range parameters(a.Request) {
			if p.isStruct() {
				structs = append(structs, p)
			}
		}
		for _, p := range structs {
			unknown := parameter{path: append(slices.Clone(p.path), "Unheard")}
			w.run(t, a.Name+" "+unknown.String(), func(t *testing.T) {
				got := w.as("alice").call(a.Name, jsonOf(w.with(a, unknown, 1, has)))
				if want := unknown.String() + " is not a parameter of "; got.code() != "3001" || !strings.HasPrefix(got.details(), want) {
					t.Errorf("answered with %s, want 3001 and %s", got.text, want)
				}
			})
		}
	}
}

func TestMissingParametersAreNamed(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	for _, a := range w.API.Actions() {
		for _, p := range parameters(a.Request) {
			if !p.required {
				continue
			}
			w.run(t, a.Name+" "+p.String(), func(t *testing.T) {
				null := jsonOf(w.with(a, p, nil, has))
				for _, body := range []string{null, without(null, p.path[len(p.path)-1])} {
					got := w.as("alice").call(a.Name, body)
					if want := p.String() + " is required."; got.code() != "7000" || got.details() != want {
						t.Errorf("%s: %s, want 7000 and %s", body, got.text, want)
					}
				}
			})
		}
	}
}

// without is a request without a member that is null.
func without(body, name string) string {
	null := `"` + name + `":null`
	return strings.NewReplacer(","+null, "", null+",", "", null, "").Replace(body)
}

// wrong is a value of another JSON type.
func wrong(t reflect.Type) any {
	switch {
	case isTextual(t) || t.Kind() == reflect.String:
		return 12
	case t.Kind() == reflect.Bool:
		return "true"
	}
	return "12"
}

func TestWrongTypesAreNamed(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	dryRun := parameter{path: []string{"DryRun"}, t: reflect.TypeFor[bool]()}
	for _, a := range w.API.Actions() {
		for _, p := range append(parameters(a.Request), dryRun) {
			w.run(t, a.Name+" "+p.String(), func(t *testing.T) {
				request := w.with(a, p, wrong(p.t), has)
				got := w.as("alice").call(a.Name, jsonOf(request))
				if want := p.String() + " must be "; got.code() != "4108" || !strings.HasPrefix(got.details(), want) {
					t.Errorf("%s: %s, want 4108 and %s…", jsonOf(request), got.text, want)
				}
			})
		}
	}
}

// A parameter that is null is one that is absent.
func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	forEachFamily(t, func(t *testing.T, w *testRegion, actions []api.Action) {
		for _, a := range actions {
			w.run(t, a.Name, func(t *testing.T) {
				name, has := w.equipped(a)
				request := w.minimal(a, has)
				for _, p := range append(parameters(a.Request), parameter{path: []string{"DryRun"}}) {
					if parameter := p.path[0]; request[parameter] == nil {
						request[parameter] = nil
					}
				}
				if got := w.as(name).call(a.Name, jsonOf(request)); got.status != nethttp.StatusOK {
					t.Errorf("%s: %s", jsonOf(request), got.text)
				}
			})
		}
	})
}

// stored is the version of somebody's account, which every change raises.
func (w *testRegion) stored(name string) (version uint64) {
	w.view(name, func(tx *resource.Tx) error { version = tx.Version(); return nil })
	return version
}

// What a dry run answers is checked at every call.
func TestADryRunWritesNothing(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	w.settle()
	for _, a := range w.API.Actions() {
		w.run(t, a.Name, func(t *testing.T) {
			before := w.stored("alice")
			request := w.minimal(a, has)
			request["DryRun"] = true
			if got := w.as("alice").call(a.Name, jsonOf(request)); got.status != nethttp.StatusOK {
				t.Errorf("%s: %s", jsonOf(request), got.text)
			}
			if after := w.stored("alice"); after != before {
				t.Errorf("the account went from version %d to %d", before, after)
			}
		})
	}
}

func TestActionsThatReadWriteNothing(t *testing.T) {
	t.Parallel()
	forEachFamily(t, func(t *testing.T, w *testRegion, actions []api.Action) {
		for _, a := range actions {
			w.run(t, a.Name, func(t *testing.T) {
				name, has := w.equipped(a)
				before := w.stored(name)
				w.as(name).must(a.Name, jsonOf(w.minimal(a, has)))
				if after := w.stored(name); a.Reads != (after == before) {
					t.Errorf("the account went from version %d to %d, and that the action reads is %t", before, after, a.Reads)
				}
			})
		}
	})
}

// notIDs are parameters that are named like ids of resources, or belong to
// somebody, and are none that could be told apart, each with the reason.
var notIDs = map[string]string{
	"CheckAuthenticationRequest.Login":    "a login goes with its password",
	"CheckAuthenticationRequest.Password": "a password is no name",
	"FiltersService.ServiceIds":           "services are the region's",
	"SecurityGroupRule.ServiceIds":        "services are the region's",

	"SecurityGroupsMember.AccountId": "an account goes with its group",

	"CreateLoadBalancerPolicyRequest.PolicyName": "the caller chooses it, and the answer shows all policies",

	"CreateSecurityGroupRuleRequest.SecurityGroupAccountIdToLink":   "an account goes with its group",
	"DeleteSecurityGroupRuleRequest.SecurityGroupAccountIdToUnlink": "an account goes with its group",

	"FiltersRouteTable.RouteDestinationServiceIds": "services are the region's",
	"Tag.ResourceId":                   "a filter by tags does not look at it",
	"PermissionsOnResource.AccountIds": "something may be shared with accounts that nobody has",
	"FiltersImage.AccountIds":          "the id of nobody is that of the account of the public images",
	"OsuApiKey.ApiKeyId":               "a key of an object store",
}

// peeringID is the ID of a Net peering. A request to another account makes one,
// whether or not that account is there.
var peeringID = regexp.MustCompile(`pcx-[0-9a-f]{8}`)

// shape is an answer to a call about an id, without the id, the context and the
// ID of a peering that was made.
func (a *answer) shape(id string) string {
	body := maps.Clone(a.body)
	delete(body, "ResponseContext")
	return fmt.Sprintf("%d %s", a.status, peeringID.ReplaceAllString(strings.ReplaceAll(textOf(body), id, "ID"), "PEERING"))
}

func TestAbsentAndForeignLookAlike(t *testing.T) {
	t.Parallel()
	forEachFamily(t, func(t *testing.T, w *testRegion, actions []api.Action) {
		foreign := w.equip("bob")
		for _, a := range actions {
			for _, p := range parameters(a.Request) {
				if p.t.Kind() != reflect.String || notIDs[p.key] != "" {
					continue
				}
				theirs, other := foreign.named(p)
				if theirs == "" {
					if other == nil && (strings.HasSuffix(p.key, "Id") || strings.HasSuffix(p.key, "Ids")) {
						t.Errorf("%s of %s is an id of nothing: give somebody one in equip, or say in notIDs why not", p, a.Name)
					}
					continue
				}
				w.run(t, a.Name+" "+p.String(), func(t *testing.T) {
					name, has := w.equipped(a)
					ask := func(id string) string {
						return w.as(name).call(a.Name, jsonOf(w.with(a, p, id, has))).shape(id)
					}
					absent := ask(nobodys(theirs))
					if diff := cmp.Diff(absent, ask(theirs)); diff != "" {
						t.Errorf("another account's ids are told apart from absent ones (-absent +foreign):\n%s", diff)
					}
					own, _ := has.named(p)
					if got := ask(own); got == absent || !strings.HasPrefix(got, "200") {
						t.Errorf("the caller's own is not found: %s", got)
					}
				})
			}
		}
	})
}

// otherwise are the parameters whose absent id is refused with other words, or with
// none, each with the reason.
var otherwise = map[string]string{
	"CreateNetPeering.AccepterNetId":                 "the account that would have it is named, too",
	"CreateVms.BlockDeviceMappings.0.Bsu.SnapshotId": "the volume is named, too",
	"UpdateNic.LinkNic.LinkNicId":                    "the NIC that would have it is named, too",

	"CreateSecurityGroupRule.Rules.0.SecurityGroupsMembers.0.SecurityGroupId": "a member has a code of its own",
	"DeleteSecurityGroupRule.Rules.0.SecurityGroupsMembers.0.SecurityGroupId": "the rule is missed",
}

// What does not exist is missed by the name of its parameter, in the words of the
// real service. Of a list, that is the name of one such ID. Accounts are not looked
// up.
func TestMissingThingsAreNamed(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	for _, a := range w.API.Actions() {
		for _, p := range parameters(a.Request) {
			theirs, _ := has.named(p)
			if _, isID := resource.FormOf(p.t); !isID || theirs == "" || p.t == reflect.TypeFor[id.Account]() || p.path[0] == "Filters" ||
				otherwise[a.Name+"."+p.String()] != "" {
				continue
			}
			w.run(t, a.Name+" "+p.String(), func(t *testing.T) {
				absent := nobodys(theirs)
				got := w.as("alice").call(a.Name, jsonOf(w.with(a, p, absent, has)))
				_, name, _ := strings.Cut(p.key, ".")
				if p.path[len(p.path)-1] == "0" {
					name = p.t.Name() + "Id"
					if form, _ := resource.FormOf(p.t); form.Length == 0 { // it is a name
						name = p.t.Name() + "Name"
					}
				}
				if want := "The " + name + " '" + absent + "' doesn't exist."; got.at("Errors.0.Type") != "InvalidResource" || got.details() != want {
					t.Errorf("%s, want %s", got.text, want)
				}
			})
		}
	}
}

// TestEveryCallIsRecorded refuses each action in several ways. That each call
// makes one record of itself is checked at the end of every test.
func TestEveryCallIsRecorded(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	for _, a := range w.API.Actions() {
		alice, other, path := w.as("alice"), w.person(w.fresh()), "/api/v1/"+a.Name
		for what, got := range map[string]*answer{
			"dry run":      alice.call(a.Name, jsonOf(w.with(a, parameter{path: []string{"DryRun"}}, true, has))),
			"unsigned":     w.unsigned().call(a.Name, "{}"),
			"wrong secret": w.unsigned().signing(other.key, "guess").call(a.Name, "{}"),
			"unknown key":  w.unsigned().signing("AKIA0000000000000000", "guess").call(a.Name, "{}"),
			"malformed":    alice.call(a.Name, "{"),
			"no object":    alice.call(a.Name, "[]"),
			"unheard of":   alice.call(a.Name, `{"Unheard": 1}`),
			"GET":          alice.send("GET", path, nil),
			"too large":    alice.call(a.Name, strings.Repeat(" ", 1<<20+1)),
		} {
			if refused := got.status != nethttp.StatusOK; refused == (what == "dry run") && !a.Auth.AsksNobody() {
				t.Errorf("%s, %s: %s", a.Name, what, got.text)
			}
		}
	}
	w.as("alice").call("ReadEverything", "{}")
	if got, least := len(w.records()), 9*len(w.API.Actions()); got < least {
		t.Errorf("the API log has %d records of at least %d calls", got, least)
	}
}

// TestSecretsAreNotTold sends secrets wherever a client may put one. That none
// is told is checked at the end of every test.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	for _, a := range w.API.Actions() {
		for _, format := range []string{
			`{"Password": "%s"}`, `{"SecretKey": "%s", "Filters": {"Secret": {"Token": "%[1]s"}}}`, `{"Password": "%s"`,
			`[{"PreSharedKey": ["%s"]}]`, `{"Filters": "{\"Password\": \"%s\"}"}`, `Password=%s`, `{"BgpKey": "%s"}{}`,
		} {
			c := w.as("alice").with("X-Amz-Security-Token", w.canary()).with("Cookie", "session="+w.canary())
			c.call(a.Name, fmt.Sprintf(format, w.canary()))
		}
		w.unsigned().with("Authorization", w.canary()).call(a.Name, "{}")
		w.unsigned().with("Authorization", "Bearer "+w.canary()).call(a.Name, "{}")
		w.unsigned().with("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA0000000000000000/20261120/eu-west-2/osc/aws4_request, "+
			"SignedHeaders=host, Signature="+w.canary()).
			call(a.Name, "{}")
		for _, p := range parameters(a.Request) {
			name := p.keys()[1]
			if strings.Contains(name, "Password") || strings.Contains(name, "PreSharedKey") || strings.Contains(name, "BgpKey") {
				w.as("alice").call(a.Name, jsonOf(w.with(a, p, w.canary(), has)))
			}
		}
	}
	w.unsigned().login("alice@example.com", w.canary()).call("ReadAccessKeys", "{}")
	if len(w.secrets) < 10*len(w.API.Actions()) {
		t.Errorf("only %d secrets were sent", len(w.secrets))
	}
}

// reading finds the action that reads what another one answers, and where its
// answer has that, if it is more than an ID. It is of the same family, of that of
// the resource, or, if the answer is of a whole that the action changes a part of,
// of the whole's.
func (w *testRegion) reading(a api.Action) (read api.Action, member, list string) {
	if a.Reads || a.Response.NumField() != 1 || a.Response.Field(0).Type.Kind() == reflect.String {
		return api.Action{}, "", "" // it answers nothing that is read, or only an id
	}
	member = a.Response.Field(0).Name
	for _, read := range w.API.Actions() {
		if !read.Reads || read.Family != a.Family && read.Family != member {
			continue
		}
		for _, f := range reflect.VisibleFields(read.Response) {
			plural := strings.TrimSuffix(member, "y") + "ies"
			if f.Name == member || f.Type.Kind() == reflect.Slice && (strings.HasPrefix(f.Name, member) || f.Name == plural) {
				return read, member, f.Name
			}
		}
	}
	return api.Action{}, member, ""
}

// elsewhere are the actions whose answer no action of their family reads, each
// with the reason.
var elsewhere = map[string]string{
	"LinkVirtualGateway":     "it answers a part of the virtual gateway",
	"UpdateRoutePropagation": "no action reads route tables yet",
	"StartVms":               "it answers what became of the states of VMs",
	"StopVms":                "likewise",
	"DeleteVms":              "likewise",
}

// shownOnce are the fields that only the answer to a creation has.
var shownOnce = []string{"SecretKey"}

// Whatever makes or changes something answers what reading it then shows.
func TestChangesAnswerWhatReadingShows(t *testing.T) {
	t.Parallel()
	var checked atomic.Int64
	t.Cleanup(func() {
		if n := checked.Load(); n < 10 {
			t.Errorf("only %d actions were looked at", n)
		}
	})
	forEachFamily(t, func(t *testing.T, w *testRegion, actions []api.Action) {
		for _, a := range actions {
			read, member, list := w.reading(a)
			if member == "" || elsewhere[a.Name] != "" {
				continue
			}
			w.run(t, a.Name, func(t *testing.T) {
				if list == "" {
					t.Fatalf("no action of the family %s reads a %s", a.Family, member)
				}
				w.checkShown(t, a, read, member, list)
				checked.Add(1)
			})
		}
	})
}

// checkShown makes sure that an action answers in a member what another one then
// shows in its list.
func (w *testRegion) checkShown(t *testing.T, a, read api.Action, member, list string) {
	t.Helper()
	name, has := w.equipped(a)
	// Nothing moves on before it is read.
	w.sim.Fail(func(string) error { return errors.New("the driver is away") })
	defer w.sim.Fail(nil)
	c := w.as(name)
	answer := c.must(a.Name, jsonOf(w.minimal(a, has))).body[member]
	changed, isList := answer.([]any)
	if !isList {
		changed = []any{answer}
	}
	for _, o := range changed {
		for _, name := range shownOnce {
			delete(o.(object), name)
		}
	}
	shown := c.must(read.Name, jsonOf(w.minimal(read, has))).body[list]
	items, ok := shown.([]any)
	if !ok {
		items = []any{shown}
	}
	for _, o := range changed {
		if !slices.ContainsFunc(items, func(item any) bool { return cmp.Equal(item, o) }) {
			t.Errorf("%s answers %s and %s shows %s", a.Name, textOf(o), read.Name, textOf(shown))
		}
	}
}

// An account that has nothing reads empty lists, and all of them.
func TestEmptyListsAreThere(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, w *testRegion, a api.Action) {
		if !a.Reads || !strings.HasPrefix(a.Name, "Read") {
			return
		}
		c, request := w.as("alice"), object{}
		if slices.ContainsFunc(parameters(a.Request), func(p parameter) bool { return p.required && len(p.path) == 1 }) {
			name := w.fresh()
			c, request = w.as(name), w.minimal(a, w.equip(name))
		}
		got := c.call(a.Name, jsonOf(request))
		for _, f := range reflect.VisibleFields(a.Response) {
			if _, ok := got.body[f.Name].([]any); f.Type.Kind() == reflect.Slice && !ok {
				t.Errorf("there is no %s in %s", f.Name, got.text)
			}
		}
	})
}

// ownCalls are the actions whose answer changes by being asked for.
var ownCalls = []string{"ReadApiLogs"}

// Filters that say nothing select everything.
func TestEmptyFiltersSelectEverything(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	for _, a := range w.API.Actions() {
		lists := object{}
		for _, p := range parameters(a.Request) {
			if p.path[0] == "Filters" && len(p.path) == 2 && p.t.Kind() == reflect.Slice {
				lists[p.path[1]] = []string{}
			}
		}
		if len(lists) == 0 || slices.Contains(ownCalls, a.Name) {
			continue
		}
		w.run(t, a.Name, func(t *testing.T) {
			request := w.minimal(a, has)
			everything := w.as("alice").must(a.Name, jsonOf(request)).shape("no id")
			for _, filters := range []object{{}, lists} {
				request["Filters"] = filters
				body := jsonOf(request)
				if diff := cmp.Diff(everything, w.as("alice").must(a.Name, body).shape("no id")); diff != "" {
					t.Errorf("%s (-without +with):\n%s", body, diff)
				}
			}
		})
	}
}

// grouped are the lists whose items pages cut through.
var grouped = []string{"QuotaTypes"}

// Walking a list page by page shows all of it, once.
func TestPagesMakeTheList(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	checked := 0
	for _, a := range w.API.Actions() {
		if !a.Reads || a.Response.NumField() < 2 || a.Response.Field(0).Type.Kind() != reflect.Slice || slices.Contains(ownCalls, a.Name) ||
			slices.Contains(grouped, a.Response.Field(0).Name) {
			continue
		}
		checked++
		w.run(t, a.Name, func(t *testing.T) {
			member := a.Response.Field(0).Name
			all, next := w.minimal(a, has), w.minimal(a, has)
			all["ResultsPerPage"], next["ResultsPerPage"] = 1000, 2
			want, got := w.as("alice").must(a.Name, jsonOf(all)).body[member].([]any), []any{}
			for next != nil {
				page := w.as("alice").must(a.Name, jsonOf(next))
				items := page.body[member].([]any)
				got = append(got, items...)
				switch token := page.at("NextPageToken"); {
				case token != "":
					next["NextPageToken"] = token
				case page.at("HasMoreItems") == "true":
					next["FirstItem"] = len(got)
				default:
					next = nil
				}
				if len(items) > 2 || next != nil && len(items) < 2 {
					t.Fatalf("a page of two has %d items", len(items))
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-at once +page by page):\n%s", diff)
			}
		})
	}
	if checked < 8 {
		t.Errorf("only %d lists have pages", checked)
	}
}

// Every action works in each version that has it. That no answer has a field
// which the version lacks is checked at every call.
func TestEveryActionInEveryVersion(t *testing.T) {
	t.Parallel()
	forEachFamily(t, func(t *testing.T, w *testRegion, actions []api.Action) {
		for _, v := range api.Versions {
			for _, a := range actions {
				w.run(t, v.String()+" "+a.Name, func(t *testing.T) {
					call := func(name string, has belongings) *answer {
						return w.as(name).at("v"+v.String()).call(a.Name, jsonOf(w.minimal(a, has)))
					}
					last := w.unchanged
					if last.name == "" {
						last.name, last.has = w.equipped(a)
					}
					got := call(last.name, last.has)
					switch span := published.Actions[a.Name].span; {
					case span.in(v) || stillServed[a.Name] != "":
						if got.status != nethttp.StatusOK { // an earlier call used up what this one needs
							got = call(w.equipped(a))
						}
						if got.status != nethttp.StatusOK {
							t.Errorf("%s", got.text)
						}
					case got.status != nethttp.StatusNotFound || got.code() != "4042":
						t.Errorf("an action of other versions: %s", got.text)
					}
				})
			}
		}
	})
}

// The private half of a keypair is told once, to whoever has it made.
func TestPrivateKeysAreNotTold(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	private := w.as("alice").must("CreateKeypair", `{"KeypairName": "made here"}`).at("Keypair.PrivateKey")
	lines := strings.Fields(private)
	w.secret(lines[len(lines)/2])
	encoded := base64.StdEncoding.EncodeToString([]byte(private))
	w.secret(encoded[len(encoded)/2 : len(encoded)/2+40])
	// Somebody mistakes one half for the other.
	for _, form := range []string{private, encoded} {
		if got := w.as("alice").call("CreateKeypair", jsonOf(object{"KeypairName": "mistaken", "PublicKey": form})); got.code() != "4032" {
			t.Errorf("a private key in place of a public one: %s", got.text)
		}
	}
	w.as("alice").must("ReadApiLogs", "{}")
}

// Whoever brings a proof to an action that is open to all must bring a right one.
func TestOpenActionsKnowTheirCallers(t *testing.T) {
	t.Parallel()
	w := newTestRegion(t)
	has := w.equip("alice")
	own := `{"Filters": {"ProductTypeIds": ["` + has["id.ProductType"] + `"]}}`
	for name, test := range map[string]struct {
		caller client
		status int
		shown  string
	}{
		"signed":         {w.as("alice"), nethttp.StatusOK, has["id.ProductType"]},
		"a password":     {w.unsigned().login(w.person("alice").email, everybodys), nethttp.StatusOK, has["id.ProductType"]},
		"unsigned":       {w.unsigned(), nethttp.StatusOK, ""},
		"a wrong secret": {w.unsigned().signing(w.person("alice").key, "a guess"), nethttp.StatusOK, ""},
	} {
		got := test.caller.call("ReadProductTypes", own)
		if got.status != test.status || got.at("ProductTypes.0.ProductTypeId") != test.shown {
			t.Errorf("%s: %d %s", name, got.status, got.text)
		}
	}
}
