package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// object is a JSON object in the making.
type object = map[string]any

// jsonOf is an object as a body.
func jsonOf(o object) string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // it is made of what JSON has
	}
	return string(b)
}

// parameter is a field of a request, of a struct in it, or the items of a list.
type parameter struct {
	path     []string // from the request; of a list, the first item
	key      string   // the struct and the name of the field: FiltersNet.NetIds
	t        reflect.Type
	required bool
}

func (p parameter) String() string { return strings.Join(p.path, ".") }

// keys are what belongings and examples may have it under, the closest first:
// the field, its name after a dot, and its type.
func (p parameter) keys() []string {
	_, name, _ := strings.Cut(p.key, ".")
	return []string{p.key, "." + name, p.t.String()}
}

// isStruct reports whether it holds parameters of its own.
func (p parameter) isStruct() bool { return p.t.Kind() == reflect.Struct && !isTextual(p.t) }

// parameters lists what a request of the newest version may say, but for DryRun,
// which all may.
func parameters(request reflect.Type) (all []parameter) {
	var visit func(t reflect.Type, path []string)
	visit = func(t reflect.Type, path []string) {
		for _, f := range reflect.VisibleFields(t) {
			if f.Anonymous || !f.IsExported() || !api.Latest.Has(api.SchemaName(t), f.Name) {
				continue
			}
			p := parameter{
				path: append(slices.Clone(path), f.Name), key: t.Name() + "." + f.Name,
				t: f.Type, required: f.Tag.Get("api") == "required",
			}
			for {
				for p.t.Kind() == reflect.Pointer {
					p.t = p.t.Elem()
				}
				all = append(all, p)
				if p.t.Kind() != reflect.Slice {
					break
				}
				p = parameter{path: append(slices.Clone(p.path), "0"), key: p.key, t: p.t.Elem()}
			}
			if p.isStruct() {
				visit(p.t, p.path)
			}
		}
	}
	visit(request, nil)
	return all
}

func isTextual(t reflect.Type) bool {
	_, ok := reflect.Zero(t).Interface().(interface{ AppendWire([]byte) []byte })
	return ok
}

// belongings are what somebody has that a request may name, by one of the keys
// of the parameter.
type belongings map[string]string

// examples are values of the parameters that a type does not tell enough of, by
// one of their keys.
var examples = map[string]any{
	"api.CIDR":           "10.9.0.0/16",
	"api.IPRange":        "0.0.0.0/0",
	"api.IPv4":           "192.0.2.53",
	"network.NameServer": "192.0.2.53",
	"network.DomainName": "example.com",
	"iam.Path":           "/example/",
	"iam.Email":          func(w *testRegion) any { return w.fresh() + "@example.com" },
	"compute.DeviceName": "/dev/xvdz",
	".FirstItem":         0,
	".NextPageToken":     "",

	"id.Account":                              "123456789012",
	"id.SecurityGroupRule":                    "sgr-12345678",
	"network.GroupName":                       func(w *testRegion) any { return w.fresh() },
	"CreateNetAccessPointRequest.ServiceName": "com.outscale.eu-west-2.oos",
	"network.Tenancy":                         "default",
	"compute.KeypairName":                     func(w *testRegion) any { return w.fresh() },
	"CreateKeypairRequest.PublicKey":          someKey,
	"CreateFlexibleGpuRequest.ModelName":      "nvidia-p6",
	"CreateFlexibleGpuRequest.Generation":     "v5",
	".SubregionName":                          "eu-west-2a",
	"compute.BlockDeviceMappingVmCreation":    object{"DeviceName": "/dev/xvdz"},
	"compute.NicForVmCreation":                object{"DeviceNumber": 0, "SubnetId": own("id.Subnet")},
	"compute.UserData":                        "aGVsbG8=",
	"compute.VmNumber":                        1,
	"compute.GenerationName":                  "v4",

	"CreateCaRequest.CaPem":      func(w *testRegion) any { return newAuthority(w.t, "Example authority").pem() },
	"CreateUserRequest.UserName": func(w *testRegion) any { return w.fresh() },

	"iam.UserGroupName":                    func(w *testRegion) any { return w.fresh() },
	"iam.PolicyName":                       func(w *testRegion) any { return w.fresh() },
	"CreatePolicyRequest.PolicyName":       func(w *testRegion) any { return w.fresh() },
	"CreateUserGroupRequest.UserGroupName": func(w *testRegion) any { return w.fresh() },
	"PutUserPolicyRequest.PolicyName":      func(w *testRegion) any { return w.fresh() },
	"PutUserGroupPolicyRequest.PolicyName": func(w *testRegion) any { return w.fresh() },
	"iam.PolicyDocument":                   everything,
	".VersionId":                           "v2",

	"CreateDirectLinkRequest.Location": "PAR1",

	// As the Nets of equip have them.
	"DeleteVpnConnectionRouteRequest.DestinationIpRange": "10.77.0.0/16",
	"UpdateRouteRequest.DestinationIpRange":              "0.0.0.0/0",
	"DeleteRouteRequest.DestinationIpRange":              "0.0.0.0/0",
	"UnlinkPrivateIpsRequest.PrivateIps":                 "10.8.0.111",
	"CreateVolumeRequest.SubregionName":                  "eu-west-2a",
	"compute.BucketName":                                 func(w *testRegion) any { return "bucket-" + strings.ToLower(w.fresh()) },
	"CreateImageRequest.FileLocation":                    "backups/nothing.json",
	"compute.BlockDeviceMappingImage":                    func(*testRegion) any { return object{"DeviceName": "/dev/sda1"} },
	"compute.ImageName":                                  func(w *testRegion) any { return w.fresh() },
	"compute.ProductCode":                                "0001",
	"compute.ObjectPrefix":                               "daily/",
	"UpdateSnapshotRequest.PermissionsToCreateVolume": func(*testRegion) any {
		return object{"Additions": object{"AccountIds": []string{"000000000009"}}}
	},

	// A limit needs access keys that all end.
	"UpdateApiAccessPolicyRequest.MaxAccessKeyExpirationSeconds": 0,
}

// someKey is the public half of a keypair that nobody has the other half of.
const someKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKqO8OYfWSgr6feI7XEPe0RQPCfmDaZ3T4dtM0wgcmXs somebody"

// fresh is a word that was not used before.
func (w *testRegion) fresh() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.words++
	return fmt.Sprintf("new-%d", w.words)
}

// named is what a parameter has by its closest key: something of somebody's, or
// an example.
func (has belongings) named(p parameter) (theirs string, other any) {
	for _, key := range p.keys() {
		if theirs, ok := has[key]; ok {
			return theirs, nil
		}
		if other, ok := examples[key]; ok {
			return "", other
		}
	}
	return "", nil
}

// example is a valid value of a parameter.
func (w *testRegion) example(p parameter, has belongings) any {
	if p.t.Kind() == reflect.Slice {
		p.t = p.t.Elem()
		return []any{w.example(p, has)}
	}
	switch theirs, other := has.named(p); other := other.(type) {
	case func(*testRegion) any:
		return other(w)
	case object:
		o := maps.Clone(other)
		has.fill(o)
		return o
	case nil:
		if theirs != "" {
			return theirs
		}
	default:
		return other
	}
	zero := reflect.Zero(p.t).Interface()
	if _, ok := resource.FormOf(p.t); ok {
		w.t.Fatalf("nobody has anything for %s, a %s: say it in equip", p.key, p.t)
	}
	if enum, ok := zero.(api.Enum); ok {
		return enum.Literals()[0]
	}
	if bounded, ok := zero.(api.Bounded); ok {
		_, high := bounded.Bounds()
		return high
	}
	if isTextual(p.t) {
		return "2026-12-01"
	}
	switch p.t.Kind() {
	case reflect.Struct:
		o := object{}
		for _, inner := range parameters(p.t) {
			if len(inner.path) == 1 && inner.required {
				o[inner.path[0]] = w.example(inner, has)
			}
		}
		return o
	case reflect.String:
		return "text"
	case reflect.Bool:
		return false
	}
	return 1
}

// own is a key of belongings, in the place of what is under it.
type own string

// fill puts what is theirs into the places of its keys, those in lists included.
func (has belongings) fill(o object) {
	for name, value := range o {
		switch value := value.(type) {
		case own:
			o[name] = has[string(value)]
		case []any:
			list := slices.Clone(value)
			for i := range list {
				if key, ok := list[i].(own); ok {
					list[i] = has[string(key)]
				}
			}
			o[name] = list
		}
	}
}

// needed is what actions demand beyond their required parameters.
var needed = map[string]object{
	"DeleteSecurityGroup":     {"SecurityGroupId": own("DeleteSecurityGroupRequest.SecurityGroupId")},
	"CreateSecurityGroupRule": {"Rules": []any{object{"IpRanges": []any{"10.7.0.0/16"}}}},
	"DeleteSecurityGroupRule": {"Rules": []any{object{"IpRanges": []any{"10.9.0.0/16"}}}},

	"CreateVolume":        {"Size": 10},
	"UpdateVolume":        {"Size": 20},
	"CreateImage":         {"SourceImageId": own("id.Image"), "SourceRegionName": "eu-west-2"},
	"UpdateImage":         {"PermissionsToLaunch": object{"Additions": object{"AccountIds": []string{"000000000009"}}}},
	"CreateSnapshot":      {"SourceSnapshotId": own("id.Snapshot"), "SourceRegionName": "eu-west-2"},
	"CreateApiAccessRule": {"IpRanges": []string{"0.0.0.0/0"}},
	"UpdateApiAccessRule": {"IpRanges": []string{"0.0.0.0/0"}},
	"CreateDhcpOptions":   {"DomainName": "example.org"},
	"CreateRoute":         {"GatewayId": own("network.RouteGateway")},
	"UpdateRoute":         {"GatewayId": own("network.RouteGateway")},
	"UpdateAccessKey":     {"State": "ACTIVE"},
	"UpdateNic":           {"Description": "a card"},
	"LinkPublicIp":        {"PublicIpId": own("id.PublicIp"), "NicId": own("id.Nic")},
	"UnlinkPublicIp":      {"LinkPublicIpId": own("id.LinkPublicIp")},
	"DeletePublicIp":      {"PublicIpId": own("id.PublicIp")},
	"CreateKeypair":       {"PublicKey": someKey}, // to make one takes long
	"DeleteKeypair":       {"KeypairName": own("DeleteKeypairRequest.KeypairName")},
}

// minimal is the least that a valid request says.
func (w *testRegion) minimal(a api.Action, has belongings) object {
	return w.least(a, needed[a.Name], has)
}

// least is what an action demands, and its required parameters.
func (w *testRegion) least(a api.Action, demanded object, has belongings) object {
	o := maps.Clone(demanded)
	if o == nil {
		o = object{}
	}
	has.fill(o)
	for _, p := range parameters(a.Request) {
		if len(p.path) == 1 && p.required {
			o[p.path[0]] = w.example(p, has)
		}
	}
	return o
}

// fitting are parameters that change what another one must be, each with what
// that is; empty: it must be absent.
var fitting = map[string]struct{ parameter, has string }{
	"UpdateAccessKey.UserName": {"AccessKeyId", "the key of UserName"},
	"DeleteAccessKey.UserName": {"AccessKeyId", "the key of UserName"},
	"CreateRoute.NatServiceId": {parameter: "GatewayId"},
	"CreateRoute.NetPeeringId": {parameter: "GatewayId"},
	"CreateRoute.NicId":        {parameter: "GatewayId"},
	"CreateRoute.VmId":         {parameter: "GatewayId"},
	"UpdateRoute.NatServiceId": {parameter: "GatewayId"},
	"UpdateRoute.NetPeeringId": {parameter: "GatewayId"},
	"UpdateRoute.NicId":        {parameter: "GatewayId"},
	"UpdateRoute.VmId":         {parameter: "GatewayId"},
	"DeleteKeypair.KeypairId":  {parameter: "KeypairName"},
	"DeletePublicIp.PublicIp":  {parameter: "PublicIpId"},
	"LinkPublicIp.PublicIp":    {parameter: "PublicIpId"},
	"LinkPublicIp.VmId":        {parameter: "NicId"},
	"UnlinkPublicIp.PublicIp":  {parameter: "LinkPublicIpId"},
}

// instead are parameters that go without another one beside them, which the action
// needs otherwise.
var instead = map[string]string{
	"CreateVms.Nics.0.NicId":                            "SubnetId",
	"CreateSecurityGroupRule.SecurityGroupNameToLink":   "Rules",
	"DeleteSecurityGroupRule.SecurityGroupNameToUnlink": "Rules",
}

// neededWith is what actions demand, in place of what needed says, together with
// a parameter that asks for the same in another way.
var neededWith = map[string]object{
	"CreateSnapshot.VolumeId":                          {},
	"CreateImage.VmId":                                 {},
	"CreateImage.FileLocation":                         {"ImageName": "from a file"},
	"CreateImage.BlockDeviceMappings.0.Bsu.SnapshotId": {"RootDeviceName": "/dev/sda1"},
}

// with is the least that a valid request says which has the parameter as well.
func (w *testRegion) with(a api.Action, p parameter, value any, has belongings) object {
	o := w.minimal(a, has)
	if demanded, ok := neededWith[a.Name+"."+p.String()]; ok {
		o = w.least(a, demanded, has)
	}
	if f, ok := fitting[a.Name+"."+p.String()]; ok {
		if o[f.parameter] = has[f.has]; f.has == "" {
			delete(o, f.parameter)
		}
	}
	delete(o, instead[a.Name+"."+p.String()])
	all := parameters(a.Request)
	var put func(in object, at int)
	put = func(in object, at int) {
		next, inner := at+1, value
		isItem := next < len(p.path) && p.path[next] == "0"
		if isItem {
			next++
		}
		if next < len(p.path) { // there is a struct on the way, with what it needs
			i := slices.IndexFunc(all, func(outer parameter) bool { return slices.Equal(outer.path, p.path[:next]) })
			outer := w.example(all[i], has).(object)
			delete(outer, instead[a.Name+"."+p.String()])
			put(outer, next)
			inner = outer
		}
		if isItem {
			inner = []any{inner}
		}
		in[p.path[at]] = inner
	}
	put(o, 0)
	return o
}

// nobodys is an id or a name that nobody has, of the form of one that somebody
// has.
func nobodys(id string) string {
	if _, err := netip.ParseAddr(id); err == nil {
		return "203.0.113.1"
	}
	symbols := id[strings.LastIndex(id, "-")+1:]
	return strings.TrimSuffix(id, symbols) + strings.Repeat("0", len(symbols))
}

// equip makes for somebody one of everything, with all that it can have, and
// what nothing holds where an action deletes it.
func (w *testRegion) equip(name string) belongings {
	w.t.Helper()
	p, c := w.person(name), w.as(name)
	first := c.must("UpdateAccount", `{"AdditionalEmails": ["ops@example.com"], "JobTitle": "Engineer",
		"MobileNumber": "1", "PhoneNumber": "2", "StateProvince": "3", "VatNumber": "4"}`)
	made := func(path, action, format string, args ...any) string {
		w.t.Helper()
		return c.must(action, fmt.Sprintf(format, args...)).at(path)
	}
	authority := strconv.Quote(newAuthority(w.t, "Authority of "+name).pem())
	user, other := name+"-carol", name+"-dave"
	has := belongings{
		"id.DhcpOptionsSet": made("DhcpOptionsSet.DhcpOptionsSetId", "CreateDhcpOptions",
			`{"LogServers": ["192.0.2.4"], "NtpServers": ["192.0.2.5"]}`),
		"id.Ca": made("Ca.CaId", "CreateCa", `{"CaPem": %s, "Description": "laptops"}`, authority),
		"id.ApiAccessRule": made("ApiAccessRule.ApiAccessRuleId", "CreateApiAccessRule",
			`{"IpRanges": ["192.0.2.1"], "Description": "the office"}`),
		"id.User":      made("User.UserId", "CreateUser", `{"UserName": %q, "UserEmail": "carol@example.com"}`, user),
		"id.AccessKey": made("AccessKey.AccessKeyId", "CreateAccessKey", `{"Tag": "spare", "ExpirationDate": "2027-11-20"}`),

		".UserName":                  user,
		"DeleteUserRequest.UserName": other,
		"the key of UserName": made("AccessKey.AccessKeyId", "CreateAccessKey",
			`{"UserName": %q, "Tag": "laptop", "ExpirationDate": "2027-11-20"}`, user),
		"FiltersApiLog.QueryAccessKeys": p.key,
		"FiltersApiLog.RequestIds":      first.at("ResponseContext.RequestId"),

		"CheckAuthenticationRequest.Login":    p.email,
		"CheckAuthenticationRequest.Password": p.password,
	}
	made("User.UserId", "CreateUser", `{"UserName": %q}`, other)
	made("", "UpdateAccessKey", `{"AccessKeyId": %q, "UserName": %q, "State": "INACTIVE"}`, has["the key of UserName"], user)
	ca := made("Ca.CaId", "CreateCa", `{"CaPem": %s}`, authority)
	made("", "CreateApiAccessRule", `{"CaIds": [%q], "Cns": ["alice"], "Description": "at home"}`, ca)
	has["FiltersApiAccessRule.CaIds"], has["id.Account"] = ca, p.account
	w.equipIdentity(name, made, has)
	w.equipSources(name, made, has)
	w.equipNetworks(name, made, has)
	w.equipMachines(made, has)
	w.equipDisks(name, made, has)
	w.equipImages(name, made, has)
	w.equipBalancers(name, made, has)
	return has
}

// equipped is an account with one of everything, at rest, that nothing has
// changed since it was equipped: the one of last time if that is so, else another.
// What the action is about that ends by itself is made anew.
func (w *testRegion) equipped(a api.Action) (name string, has belongings) {
	w.t.Helper()
	renew := passing[a.Name]
	if renew == nil && w.unchanged.name != "" && w.stored(w.unchanged.name) == w.unchanged.version {
		return w.unchanged.name, w.unchanged.has
	}
	name = w.fresh()
	has = w.equip(name)
	w.settleWithin(time.Minute) // what is kept for hours after its end is still there
	if renew != nil {
		renew(w, name, has)
	}
	w.unchanged = unchanged{name, has, w.stored(name)}
	return name, has
}

// unchanged is an account that was equipped, at the version that it then had.
type unchanged struct {
	name    string
	has     belongings
	version uint64
}
