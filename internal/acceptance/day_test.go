package acceptance

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	nethttp "net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/auth"
	"github.com/bastide-cloud/bastide/internal/cloud/catalog"
	"github.com/bastide-cloud/bastide/internal/cloud/compute"
	"github.com/bastide-cloud/bastide/internal/cloud/iam"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

// To equip the people of a region takes longer than a day in it: so there are
// fewer and longer days, unless the environment or the command line says
// otherwise. The continuous checks ask for more.
func init() {
	checks := cmp.Or(os.Getenv("BASTIDE_DAYS"), days)
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.steps": "100"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}

// TestRandomDay lets two people do what comes to their minds, wrong things
// included, while time passes. What is true of every day is true of that one.
func TestRandomDay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := newDay(t, "alice", "bob")
		t.Repeat(map[string]func(*rapid.T){
			"calls":  d.calls,
			"guess":  d.guess,
			"wait":   d.wait,
			"guests": d.guests,
			"settle": func(*rapid.T) { d.w.settle() },
		})
		for _, name := range d.people {
			d.checkCredentials(name)
			d.mend(name)
		}
		d.settle()
		d.check()
	})
}

// day is a random day.
type day struct {
	w       *testRegion
	people  []string
	actions []string // those that come to mind often several times
	// by person and by key of belongings: what requests may say
	pools  map[string]map[string][]string
	owners map[string]string          // of ids
	told   map[string]map[string]bool // by person: others' ids that they said themselves
}

// limits are so low that a day reaches them.
var limits = map[string]int{
	"vpc_limit": 8, "subnet_limit": 7, "ip_limit": 7,
	"volume_limit": 14, "volume_size_limit": 400, "vm_limit": 9, "core_limit": 14, "memory_limit": 60, "snapshot_limit": 4,
	"concurrent_snapshot_limit": 2, "image_export_limit": 3, "snapshot_export_limit": 2,
}

func newDay(t *rapid.T, people ...string) *day {
	d := &day{
		w: newTestRegion(t, seeded(rapid.Uint64().Draw(t, "seed")), func(o *region.Options) {
			o.Quotas = catalog.Limits()
			maps.Copy(o.Quotas, limits)
		}),
		people: people,
		pools:  map[string]map[string][]string{}, owners: map[string]string{}, told: map[string]map[string]bool{},
	}
	for _, a := range d.w.API.Actions() {
		often := 1
		if strings.HasPrefix(a.Name, "Create") {
			often = 4
		}
		// Most rules are in these families.
		if slices.Contains([]string{"Net", "Subnet", "DhcpOption", "RouteTable", "NatService", "Nic", "PublicIp", "Volume", "Snapshot", "Image",
			"Vm"}, a.Family) {
			often *= 3
		}
		d.actions = append(d.actions, slices.Repeat([]string{a.Name}, often)...)
	}
	for _, name := range d.people {
		pool := map[string][]string{}
		for key, value := range d.w.equip(name) {
			pool[key] = []string{value}
		}
		maps.Copy(pool, map[string][]string{
			"api.CIDR": {"10.9.0.0/16", "10.9.0.0/17", "192.168.0.0/28", "8.8.8.0/24"},
			"CreateSubnetRequest.IpRange": {"10.9.1.0/24", "10.8.1.0/24", "10.9.1.128/25", "10.9.0.0/17", "10.8.200.0/28", "10.9.128.0/17",
				"10.9.0.0/16"},
			"api.IPRange":                     {"0.0.0.0/0", "192.0.2.0/24", "203.0.113.0/24"},
			"api.IPv4":                        {"192.0.2.1", "192.0.2.2", "nowhere"},
			".PrivateIp":                      {"10.8.0.100", "10.8.0.101", "10.8.0.102", "10.8.0.3", "10.9.1.5"},
			".PrivateIps":                     {"10.8.0.100", "10.8.0.101", "10.8.0.102", "10.8.0.103", "10.9.1.5"},
			"network.LinkIp":                  {"172.16.0.1/30", "172.16.0.2/30", "", "172.16.0.2/29", "nowhere"},
			".Location":                       {"PAR1", "PAR4", "PAR9"},
			"network.NameServer":              {"192.0.2.53", "OutscaleProvidedDNS"},
			"network.DomainName":              {"example.com", "", "example com"},
			"network.GroupName":               {"web", "default", "db", "sg-web"},
			".SecurityGroupName":              {"web", "default", "db"},
			"network.Protocol":                {"tcp", "6", "icmp", "-1", "-1", "50", "quic"},
			".ServiceName":                    {"com.outscale.eu-west-2.api", "com.outscale.eu-west-2.oos", "com.outscale.eu-west-2.s3"},
			".SubregionName":                  {"eu-west-2a", "", "eu-west-2c", "us-east-2a"},
			"iam.Email":                       {"erin@example.com", "alice@example.com", "nobody"},
			"iam.Path":                        {"/", "/example/", "example"},
			"iam.UserName":                    {"dave", "erin"},
			"CreateUserRequest.UserName":      {"dave", "erin"},
			".UserName":                       {name + "-carol", "dave", "erin"},
			"CreateCaRequest.CaPem":           {someAuthority(), "not PEM"},
			".Password":                       {everybodys, "a guess"},
			"compute.KeypairName":             {"a key", "another key", "clé"},
			".KeypairName":                    {name + "-key", "a key", "another key"},
			".PublicKey":                      {someKey, "no key"},
			".ModelName":                      {"nvidia-p6", "nvidia-a10", "nvidia-k3"},
			".Generation":                     {"v5", "v6", ""},
			"compute.GenerationName":          {"v5", "v9"},
			".VmType":                         {"tinav5.c1r1p1", "t2.small", "tinav6.c2r4", "tinav9.c1r1"},
			"compute.UserData":                {"aGVsbG8=", "not Base64!"},
			".DeviceName":                     {"/dev/sda1", "/dev/xvdb"},
			"compute.ClientToken":             {"token", "another token"},
			"compute.DeviceName":              {"/dev/xvdb", "/dev/sdc", "/dev/sda1", "xvdb"},
			".FileLocation":                   {"https://example.com/snap.qcow2", "snap.qcow2"},
			".SourceRegionName":               {"eu-west-2", "us-east-2"},
			"CreateImageRequest.FileLocation": {"backups/nothing.json", d.w.bucket(name) + "/daily/" + pool["id.ImageExportTask"][0] + ".json"},
			"compute.ImageName":               {"golden", "silver", "x"},
			"compute.BucketName":              {d.w.bucket(name), "a/b"},
		})
		maps.Copy(pool, identityPool(name, pool))
		maps.Copy(pool, balancerPool(name, pool))
		d.pools[name], d.told[name] = pool, map[string]bool{}
	}
	for _, name := range d.people { // what is shared from the beginning
		body := `{"SnapshotId": "` + d.pools[name]["id.Snapshot"][0] + `", "PermissionsToCreateVolume": {"Additions": ` +
			`{"GlobalPermission": true}}}`
		d.tell(d.w.as(name).must("UpdateSnapshot", body).body["Snapshot"])
	}
	return d
}

var someAuthority = sync.OnceValue(func() string { return newAuthority(panicker{}, "Example authority").pem() })

// panicker is for what is made once, for no test in particular.
type panicker struct{ tester }

func (panicker) Helper()                        {}
func (panicker) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// naming says by which keys of belongings a request may name what an answer has
// in a field.
var naming = map[string][]string{
	"AccessKeyId":           {"id.AccessKey"},
	"ApiAccessRuleId":       {"id.ApiAccessRule"},
	"CaId":                  {"id.Ca"},
	"ClientGatewayId":       {"id.ClientGateway", ".ResourceIds"},
	"DedicatedGroupId":      {"id.DedicatedGroup", "network.Tenancy"},
	"DhcpOptionsSetId":      {"id.DhcpOptionsSet", "network.DhcpOptionsChoice", ".ResourceIds"},
	"DirectLinkId":          {"id.DirectLink"},
	"DirectLinkInterfaceId": {"id.DirectLinkInterface"},
	"FlexibleGpuId":         {"id.FlexibleGpu", "UnlinkFlexibleGpuRequest.FlexibleGpuId", ".ResourceIds"},
	"InternetServiceId":     {"id.InternetService", "network.RouteGateway", ".ResourceIds"},
	"KeypairId":             {"id.Keypair", ".ResourceIds"},
	"LinkNicId":             {"id.LinkNic"},
	"LinkPublicIpId":        {"id.LinkPublicIp"},
	"LinkRouteTableId":      {"id.LinkRouteTable"},
	"NatServiceId":          {"id.NatService", ".ResourceIds"},
	"NetAccessPointId":      {"id.NetAccessPoint", ".ResourceIds"},
	"NetId":                 {"id.Net", ".ResourceIds"},
	"NetPeeringId":          {"id.NetPeering", ".ResourceIds"},
	"NextPageToken":         {".NextPageToken"},
	"NicId":                 {"id.Nic", "UpdateNicRequest.NicId", ".ResourceIds"},
	"PublicIpId":            {"id.PublicIp", ".ResourceIds"},
	"RouteTableId":          {"id.RouteTable", ".ResourceIds"},
	"SecurityGroupId":       {"id.SecurityGroup", ".ResourceIds"},
	"ServiceId":             {".ServiceIds"},
	"SnapshotId":            {"id.Snapshot", ".ResourceIds"},
	"SubnetId":              {"id.Subnet", "CreateNicRequest.SubnetId", "DeleteSubnetRequest.SubnetId", ".ResourceIds"},
	"TaskId":                {"id.VolumeUpdateTask"},
	"UserGroupId":           {"id.UserGroup"},
	"UserId":                {"id.User"},
	"VirtualGatewayId":      {"id.VirtualGateway", "network.RouteGateway", ".ResourceIds"},
	"VmGroupId":             {"id.VmGroup"},
	"VmId":                  {"id.Vm", "LinkPublicIpRequest.VmId", "UpdateVmRequest.VmId", "StartVmsRequest.VmIds", ".ResourceIds"},
	"VmTemplateId":          {"id.VmTemplate"},
	"VolumeId":              {"id.Volume", "UnlinkVolumeRequest.VolumeId", ".ResourceIds"},
	"VpnConnectionId":       {"id.VpnConnection", ".ResourceIds"},
}

// learn remembers the ids that somebody was answered.
func (d *day) learn(name string, value any) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			d.learn(name, item)
		}
	case map[string]any:
		for field, member := range value {
			if text, ok := member.(string); ok && naming[field] != nil && d.owners[text] == "" {
				d.owners[text] = name
				for _, key := range naming[field] {
					d.pools[name][key] = append(d.pools[name][key], text)
				}
			}
			d.learn(name, member)
		}
	}
}

// calls has somebody make some calls.
func (d *day) calls(t *rapid.T) {
	name := rapid.SampledFrom(d.people).Draw(t, "who")
	for range rapid.IntRange(1, 5).Draw(t, "calls") {
		a := d.action(t)
		body := jsonOf(d.request(t, name, a.Request))
		d.w.rest()
		before := d.versions()
		got := d.w.as(name).call(a.Name, body)
		d.w.rest()
		for other, version := range d.versions() {
			// A login that is tried is counted where it belongs, and a peering
			// is both sides'.
			if other != name && version != before[other] && a.Name != "CheckAuthentication" && a.Family != "NetPeering" {
				t.Errorf("%s %s of %s changed the account of %s", a.Name, body, name, other)
			}
		}
		for text, owner := range d.owners {
			if owner != name && !d.told[name][text] && strings.Contains(got.text, text) {
				t.Errorf("%s %s tells %s of %s, which is %s's: %s", a.Name, body, name, text, owner, got.text)
			}
		}
		if a.Auth != api.Open { // what anybody is told is nobody's
			d.learn(name, got.body)
		}
		if a.Name == "CreateNetPeering" && got.body["NetPeering"] != nil {
			d.tell(got.body["NetPeering"])
		}
		if a.Name == "UpdateSnapshot" && got.body["Snapshot"] != nil {
			d.tell(got.body["Snapshot"])
		}
		if got.status == nethttp.StatusUnauthorized {
			d.mend(name)
		}
	}
}

// tell notes that everybody may know the ids of what is shared.
func (d *day) tell(shared any) {
	for _, member := range shared.(object) {
		switch member := member.(type) {
		case string:
			for _, name := range d.people {
				d.told[name][member] = true
			}
		case object:
			d.tell(member)
		}
	}
}

func (d *day) action(t *rapid.T) *api.Action {
	a, err := d.w.API.Find(rapid.SampledFrom(d.actions).Draw(t, "action"), api.Latest)
	if err != nil {
		t.Fatalf("a registered action: %v", err)
	}
	return a
}

// versions are the versions of the people's accounts.
func (d *day) versions() map[string]uint64 {
	versions := map[string]uint64{}
	for _, name := range d.people {
		versions[name] = d.w.stored(name)
	}
	return versions
}

// request is a request that may or may not be valid.
func (d *day) request(t *rapid.T, name string, typ reflect.Type) object {
	o := object{}
	for _, p := range parameters(typ) {
		if len(p.path) > 1 {
			continue
		}
		if dice := rapid.IntRange(0, 29).Draw(t, p.key); dice < 8 || p.required && dice > 8 {
			o[p.path[0]] = d.value(t, name, p)
		}
	}
	if typ == reflect.TypeFor[compute.CreateKeypairRequest]() && o["PublicKey"] == nil {
		o["PublicKey"] = someKey // to make one takes longer than all else that they do
	}
	if rapid.IntRange(0, 30).Draw(t, "dry run") == 30 {
		o["DryRun"] = true
	}
	return o
}

// value is a value of a parameter, most often one of its type.
func (d *day) value(t *rapid.T, name string, p parameter) any {
	if rapid.IntRange(0, 40).Draw(t, "wrong") == 40 {
		return wrong(p.t)
	}
	switch {
	case p.t.Kind() == reflect.Slice:
		p.t = p.t.Elem()
		list := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "items") {
			list = append(list, d.value(t, name, p))
		}
		return list
	case p.isStruct():
		return d.request(t, name, p.t)
	case isTextual(p.t):
		ahead := rapid.IntRange(-2, 50).Draw(t, "hours ahead")
		return d.w.clock.Now().Add(time.Duration(ahead) * time.Hour).Format(time.RFC3339)
	}
	if text, ok := d.said(t, name, p); ok {
		return text
	}
	if enum, ok := reflect.Zero(p.t).Interface().(api.Enum); ok {
		return rapid.SampledFrom(enum.Literals()).Draw(t, p.key)
	}
	switch p.t.Kind() {
	case reflect.String:
		return rapid.SampledFrom([]string{"text", "", "another text"}).Draw(t, p.key)
	case reflect.Bool:
		return rapid.Bool().Draw(t, p.key)
	}
	return rapid.SampledFrom([]int{0, 1, 2, 100, 1_000_000, -1}).Draw(t, p.key)
}

// said is something that the pools have for a parameter: most often the
// caller's, but also somebody else's or nobody's.
func (d *day) said(t *rapid.T, name string, p parameter) (string, bool) {
	for _, key := range p.keys() {
		if len(d.pools[name][key]) == 0 {
			continue
		}
		whose := rapid.SampledFrom(append(slices.Repeat([]string{name}, 6), append(d.people, "nobody")...)).Draw(t, "whose")
		if len(d.pools[whose][key]) == 0 {
			return nobodys(d.pools[name][key][0]), true
		}
		text := rapid.SampledFrom(d.pools[whose][key]).Draw(t, key)
		if whose != name {
			d.told[name][text] = true
		}
		return text, true
	}
	return "", false
}

// guess has a stranger try somebody's access key, or the region without one.
func (d *day) guess(t *rapid.T) {
	stranger := d.w.unsigned()
	if name := rapid.SampledFrom(append([]string{""}, d.people...)).Draw(t, "whose key"); name != "" {
		stranger = stranger.signing(d.w.person(name).key, "a guess")
	}
	a := d.action(t)
	got := stranger.call(a.Name, "{}")
	if got.status == nethttp.StatusOK && !a.Auth.AsksNobody() {
		t.Errorf("a stranger may call %s: %s", a.Name, got.text)
	}
}

// wait lets time pass.
func (d *day) wait(t *rapid.T) {
	d.w.advance(rapid.SampledFrom([]time.Duration{
		time.Millisecond, transition, time.Second, time.Minute, 11 * time.Minute, time.Hour, 25 * time.Hour,
	}).Draw(t, "for"))
}

// mend is what the operator does for somebody who is locked out: it takes the
// locks away, admits calls from everywhere and makes an access key work.
func (d *day) mend(name string) {
	p := d.w.people[name]
	d.w.update(name, func(tx *resource.Tx) error {
		for a := range auth.Attempts.All(tx) {
			if err := auth.Attempts.Delete(tx, a); err != nil {
				return err
			}
		}
		if err := iam.ApiAccessRules.Insert(tx, &iam.ApiAccessRule{IpRanges: []api.IPRange{"0.0.0.0/0"}}); err != nil {
			return err
		}
		account, err := iam.Accounts.Get(tx, id.Account(p.account))
		if err != nil {
			return err
		}
		account.Policy = iam.ApiAccessPolicy{}
		if err := iam.Accounts.Put(tx, account); err != nil {
			return err
		}
		for key := range iam.AccessKeys.All(tx) {
			if key.UserId == "" {
				key.ExpirationDate = 0
				p.key, p.secret = string(key.AccessKeyId), string(key.Secret)
				if key.State == iam.AccessKeyInactive {
					return resource.Transition(tx, iam.AccessKeys, key, iam.AccessKeyActivated)
				}
				return iam.AccessKeys.Put(tx, key)
			}
		}
		key, err := iam.NewAccessKey(tx, id.Account(p.account), "", "")
		if err == nil {
			p.key, p.secret = string(key.AccessKeyId), string(key.Secret)
		}
		return err
	})
	d.w.secret(p.secret)
}

// objects are the living resources of a kind that somebody has.
func (d *day) objects(name string, kind string) (living []*store.Object) {
	snap, err := d.w.DB.Store.View(context.Background(), d.w.people[name].account)
	if err != nil {
		d.w.t.Fatalf("reading the account of %s: %v", name, err)
	}
	for o := range snap.Scan(kind, 0) {
		if o.DeletedAt == 0 {
			living = append(living, o)
		}
	}
	return living
}

// checkReferences makes sure that every reference leads to a living resource of
// the same account.
func (d *day) checkReferences(name string) {
	kinds, ids := map[reflect.Type]string{}, map[string][]string{}
	for _, k := range d.w.DB.Kinds() {
		facts := k.Facts()
		if _, isID := resource.FormOf(facts.ID); isID {
			kinds[facts.ID] = facts.Name
		}
		for _, o := range d.objects(name, facts.Name) {
			ids[facts.Name] = append(ids[facts.Name], o.ID)
		}
	}
	for _, k := range d.w.DB.Kinds() {
		refs := resource.Paths(k.Facts().Type, func(f reflect.StructField) bool {
			t := f.Type
			for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			return kinds[t] != "" && f.Tag.Get("ref") != "-"
		})
		for _, o := range d.objects(name, k.Facts().Name) {
			for _, ref := range refs {
				ref.Each(reflect.ValueOf(o.Value).Elem(), func(v reflect.Value) bool {
					if target := kinds[ref.Type]; v.Len() > 0 && !slices.Contains(ids[target], v.String()) {
						d.w.t.Errorf("%s of the %s %s leads to the %s %s, which is not there", ref.Name, k.Facts().Name, o.ID, target, v)
					}
					return true
				})
			}
		}
	}
}

// checkCredentials makes sure that every access key leads to its account, lives
// no longer than the policy allows and is one of ten at most, that no two users
// have one name, and that a rule is left.
func (d *day) checkCredentials(name string) {
	p := d.w.people[name]
	d.w.view(name, func(tx *resource.Tx) error {
		account, err := iam.Accounts.Get(tx, id.Account(p.account))
		if err != nil {
			return err
		}
		limit := time.Duration(account.Policy.MaxAccessKeyExpirationSeconds) * time.Second
		keys := map[id.User]int{}
		for key := range iam.AccessKeys.All(tx) {
			if owner, ok := iam.KeyOwner(tx, string(key.AccessKeyId)); !ok || owner != p.account {
				d.w.t.Errorf("the access key %s of %s leads to %q", key.AccessKeyId, name, owner)
			}
			if left := key.ExpirationDate.Time().Sub(d.w.clock.Now()); limit > 0 && (key.ExpirationDate.IsZero() || left > limit) {
				d.w.t.Errorf("the access key %s lives until %v, and the policy allows %s", key.AccessKeyId, key.ExpirationDate.Time(), limit)
			}
			if keys[key.UserId]++; keys[key.UserId] > 10 {
				d.w.t.Errorf("the user %q has too many access keys", key.UserId)
			}
		}
		names := map[iam.UserName]bool{}
		for user := range iam.Users.All(tx) {
			if names[user.UserName] {
				d.w.t.Errorf("two users are called %s", user.UserName)
			}
			names[user.UserName] = true
		}
		if iam.ApiAccessRules.Count(tx) == 0 {
			d.w.t.Errorf("%s has no API access rule left", name)
		}
		return nil
	})
}

// checkQuotas makes sure that what is used is what there is, within the limit.
func (d *day) checkQuotas(name string) {
	perNet, fullest := map[id.Net]int{}, 0
	for _, o := range d.objects(name, "Subnet") {
		net := o.Value.(*network.Subnet).NetId
		perNet[net]++
		fullest = max(fullest, perNet[net])
	}
	own := 0
	for _, o := range d.objects(name, "PublicIp") {
		if !o.Value.(*network.PublicIp).Ephemeral {
			own++
		}
	}
	size := 0
	for _, o := range d.objects(name, "Volume") {
		size += o.Value.(*compute.Volume).Size
	}
	cores, memory := 0, 0
	for _, o := range d.objects(name, "Vm") {
		vm := o.Value.(*compute.Vm)
		cores, memory = cores+vm.Vcores, memory+vm.Memory
	}
	d.mend(name)
	for quota, used := range map[string]int{
		"vpc_limit": len(d.objects(name, "Net")), "subnet_limit": fullest, "ip_limit": own,
		"volume_limit": len(d.objects(name, "Volume")), "volume_size_limit": size,
		"vm_limit": len(d.objects(name, "Vm")), "core_limit": cores, "memory_limit": memory,
		"snapshot_limit": len(d.objects(name, "Snapshot")), "concurrent_snapshot_limit": 0,
	} {
		got := d.w.as(name).must("ReadQuotas", `{"Filters": {"QuotaNames": ["`+quota+`"]}}`)
		shown, max := got.at("QuotaTypes.0.Quotas.0.UsedValue"), got.at("QuotaTypes.0.Quotas.0.MaxValue")
		if shown != strconv.Itoa(used) || max != strconv.Itoa(limits[quota]) || used > limits[quota] {
			d.w.t.Errorf("%s of %s: %d are used, and %s of %s shown", quota, name, used, shown, max)
		}
	}
}
