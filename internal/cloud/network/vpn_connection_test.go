package network_test

import (
	"github.com/bastide-cloud/bastide/internal/api"

	"encoding/json"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/google/go-cmp/cmp"
)

// ends are two gateways and what is asked of their connection.
type ends struct{ virtual, client string }

// ends makes two gateways.
func (r *region) ends(account string) ends {
	r.Helper()
	return ends{r.virtualGateway(account), r.clientGateway(account, 65000, "192.0.2.1")}
}

func (e ends) joined(static bool) string {
	return fmt.Sprintf(`{"VirtualGatewayId": %q, "ClientGatewayId": %q, "ConnectionType": "ipsec.1", "StaticRoutesOnly": %t}`, e.virtual,
		e.client, static)
}

// vpn makes a connection with static routes and answers its ID.
func (r *region) vpn(account string, e ends, routes ...string) string {
	r.Helper()
	vpn := r.One(account, "CreateVpnConnection", e.joined(true)).Text("VpnConnectionId")
	for _, route := range routes {
		r.Call(account, "CreateVpnConnectionRoute", routing(vpn, route))
	}
	return vpn
}

func routing(vpn, destination string) string {
	return fmt.Sprintf(`{"VpnConnectionId": %q, "DestinationIpRange": %q}`, vpn, destination)
}

// connection reads a connection.
func (r *region) connection(account, vpn string) object {
	r.Helper()
	found := r.List(account, "ReadVpnConnections", `{"Filters": {"VpnConnectionIds": [%q]}}`, vpn)
	if len(found) != 1 {
		r.Fatalf("%d connections have the ID %s", len(found), vpn)
	}
	return found[0]
}

func TestCreateVpnConnection(t *testing.T) {
	t.Parallel()
	r := setup(t)
	e := r.ends(alice)
	got := r.One(alice, "CreateVpnConnection", `{"VirtualGatewayId": %q, "ClientGatewayId": %q, "ConnectionType": "ipsec.1"}`, e.virtual,
		e.client)
	config, key := got.Text("ClientGatewayConfiguration"), got.At("VpnOptions", "Phase2Options", "PreSharedKey").(string)
	inside, outside := got.At("VpnOptions", "TunnelInsideIpRange").(string), got.At("VgwTelemetries", 0, "OutsideIpAddress").(string)
	if len(key) != 32 || !strings.HasPrefix(inside, "169.254.254.") || !strings.HasSuffix(inside, "/30") || outside == "" {
		t.Errorf("the key is %q, the range inside %s, the address outside %s", key, inside, outside)
	}
	delete(got, "ClientGatewayConfiguration")
	r.Shows(got, `{
		"VpnConnectionId": %q, "VirtualGatewayId": %q, "ClientGatewayId": %q, "ConnectionType": "ipsec.1",
		"State": "pending", "StaticRoutesOnly": false, "Routes": [], "Tags": [],
		"VgwTelemetries": [{"State": "DOWN", "StateDescription": "IPSEC IS DOWN", "AcceptedRouteCount": 0,
			"LastStateChangeDate": "2026-11-20T10:00:00.000Z", "OutsideIpAddress": %q}],
		"VpnOptions": {
			"TunnelInsideIpRange": %q,
			"Phase1Options": {
				"DpdTimeoutAction": "clear", "DpdTimeoutSeconds": 30, "IkeVersions": ["ikev1", "ikev2"], "Phase1LifetimeSeconds": 28800,
				"Phase1DhGroupNumbers": [2, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24],
				"Phase1EncryptionAlgorithms": ["AES128", "AES256", "AES128-GCM-16", "AES256-GCM-16"],
				"Phase1IntegrityAlgorithms": ["SHA1", "SHA2-256", "SHA2-384", "SHA2-512"],
				"ReplayWindowSize": 1024, "StartupAction": "add"
			},
			"Phase2Options": {
				"Phase2DhGroupNumbers": [2, 5, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24],
				"Phase2EncryptionAlgorithms": ["AES128", "AES256", "AES128-GCM-16", "AES256-GCM-16"],
				"Phase2IntegrityAlgorithms": ["SHA1", "SHA2-256", "SHA2-384", "SHA2-512"],
				"Phase2LifetimeSeconds": 3600, "PreSharedKey": %q
			}
		}
	}`, got.Text("VpnConnectionId"), e.virtual, e.client, outside, inside, key)
	for _, text := range []string{key, outside, "192.0.2.1", "<asn>65000</asn>"} {
		if !strings.Contains(config, text) {
			t.Errorf("the configuration does not have %s:\n%s", text, config)
		}
	}

	twin, absent := r.clientGateway(alice, 65000, "192.0.2.1"), ends{"vgw-00000000", "cgw-00000000"}
	for name, refused := range map[string]struct {
		code   apierror.Code
		who    string
		joined ends
	}{
		"joined already":             {apierror.VpnConnectionExists, alice, e},
		"no such virtual gateway":    {apierror.VirtualGatewayNotFound, alice, ends{absent.virtual, e.client}},
		"no such client gateway":     {apierror.ClientGatewayNotFound, alice, ends{e.virtual, absent.client}},
		"another's virtual gateway":  {apierror.VirtualGatewayNotFound, bob, e},
		"another's client gateway":   {apierror.ClientGatewayNotFound, bob, ends{r.virtualGateway(bob), e.client}},
		"an id of the wrong form":    {apierror.InvalidID, alice, ends{e.client, e.client}},
		"an id that is not complete": {apierror.MalformedID, alice, ends{"vgw-1", e.client}},
	} {
		t.Run(name, func(t *testing.T) {
			r.With(t).Refuse(refused.code, refused.who, "CreateVpnConnection", refused.joined.joined(false))
		})
	}
	r.Refuse(apierror.InvalidVpnType, alice, "CreateVpnConnection", strings.ReplaceAll(e.joined(true), "ipsec.1", "ipsec.9"))
	r.vpn(alice, ends{e.virtual, twin})
}

// The configuration is an XML document with the elements that programs look for.
func TestClientGatewayConfiguration(t *testing.T) {
	t.Parallel()
	r := setup(t)
	e := r.ends(alice)
	vpn := r.vpn(alice, e)
	r.Call(alice, "UpdateVpnConnection", `{"VpnConnectionId": %q, "VpnOptions": {"TunnelInsideIpRange": "169.254.254.22/30",
		"Phase1Options": {"Phase1EncryptionAlgorithms": ["AES256-GCM-16"], "Phase1IntegrityAlgorithms": ["SHA2-384"],
			"Phase1DhGroupNumbers": [20], "DpdTimeoutSeconds": 60},
		"Phase2Options": {"PreSharedKey": "a <b> & 'c'", "Phase2EncryptionAlgorithms": ["AES256", "AES128"], "Phase2DhGroupNumbers": [5]}}}`, vpn)
	c := r.connection(alice, vpn)
	got := c.Text("ClientGatewayConfiguration")
	want := xml.Header + fmt.Sprintf(`<vpn_connection id="%s">
  <customer_gateway_id>%s</customer_gateway_id>
  <vpn_gateway_id>%s</vpn_gateway_id>
  <vpn_connection_type>ipsec.1</vpn_connection_type>
  <vpn_connection_attributes>NoBGPVPNConnection</vpn_connection_attributes>
  <ipsec_tunnel>
    <customer_gateway>
      <tunnel_outside_address>
        <ip_address>192.0.2.1</ip_address>
      </tunnel_outside_address>
      <tunnel_inside_address>
        <ip_address>169.254.254.22</ip_address>
        <network_mask>255.255.255.252</network_mask>
        <network_cidr>30</network_cidr>
      </tunnel_inside_address>
      <bgp>
        <asn>65000</asn>
        <hold_time>30</hold_time>
      </bgp>
    </customer_gateway>
    <vpn_gateway>
      <tunnel_outside_address>
        <ip_address>%s</ip_address>
      </tunnel_outside_address>
      <tunnel_inside_address>
        <ip_address>169.254.254.21</ip_address>
        <network_mask>255.255.255.252</network_mask>
        <network_cidr>30</network_cidr>
      </tunnel_inside_address>
      <bgp>
        <asn>50624</asn>
        <hold_time>30</hold_time>
      </bgp>
    </vpn_gateway>
    <ike>
      <authentication_protocol>sha2-384</authentication_protocol>
      <encryption_protocol>aes-256-gcm-16</encryption_protocol>
      <lifetime>28800</lifetime>
      <perfect_forward_secrecy>group20</perfect_forward_secrecy>
      <mode>main</mode>
      <pre_shared_key>a &lt;b&gt; &amp; &#39;c&#39;</pre_shared_key>
    </ike>
    <ipsec>
      <protocol>esp</protocol>
      <authentication_protocol>sha1</authentication_protocol>
      <encryption_protocol>aes-256-cbc</encryption_protocol>
      <lifetime>3600</lifetime>
      <perfect_forward_secrecy>group5</perfect_forward_secrecy>
      <mode>tunnel</mode>
      <clear_df_bit>true</clear_df_bit>
      <fragmentation_before_encryption>true</fragmentation_before_encryption>
      <tcp_mss_adjustment>1379</tcp_mss_adjustment>
      <dead_peer_detection>
        <interval>10</interval>
        <retries>6</retries>
      </dead_peer_detection>
    </ipsec>
  </ipsec_tunnel>
</vpn_connection>
`, vpn, e.client, e.virtual, c.At("VgwTelemetries", 0, "OutsideIpAddress"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var parsed struct {
		Key string `xml:"ipsec_tunnel>ike>pre_shared_key"`
	}
	if err := xml.Unmarshal([]byte(got), &parsed); err != nil || parsed.Key != "a <b> & 'c'" {
		t.Errorf("the key in it is read as %q, %v", parsed.Key, err)
	}
}

// Any key that is accepted comes out of the configuration as it was.
func FuzzPreSharedKey(f *testing.F) {
	for _, key := range []string{"", "secret", "a b\tc", `"`, "ligne\nligne", "é\u2028", "\x00", "\xff", "\ufffd", "]]>", "&amp;"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		options := network.Phase2Options{PreSharedKey: resource.Secret(key)}
		if options.Check() != nil {
			return
		}
		var b strings.Builder
		var back string
		if err := xml.NewEncoder(&b).EncodeElement(key, xml.StartElement{Name: xml.Name{Local: "key"}}); err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal([]byte(b.String()), &back); err != nil || back != key {
			t.Errorf("%q becomes %q, %v", key, back, err)
		}
	})
}

func TestVpnOptions(t *testing.T) {
	t.Parallel()
	r := setup(t)
	e := r.ends(alice)
	vpn := r.vpn(alice, e)
	other := r.vpn(alice, ends{e.virtual, r.clientGateway(alice, 65000, "192.0.2.2")})
	taken := r.connection(alice, other).At("VpnOptions", "TunnelInsideIpRange").(string)
	for name, refused := range map[string]struct {
		code    apierror.Code
		options string
	}{
		"DPD action":              {apierror.InvalidValue, `{"Phase1Options": {"DpdTimeoutAction": "ignore"}}`},
		"DPD timeout":             {apierror.InvalidValue, `{"Phase1Options": {"DpdTimeoutSeconds": 29}}`},
		"a negative timeout":      {apierror.InvalidValue, `{"Phase1Options": {"DpdTimeoutSeconds": -1}}`},
		"version of IKE":          {apierror.InvalidValue, `{"Phase1Options": {"IkeVersions": ["ikev2", "ikev3"]}}`},
		"group of phase 1":        {apierror.InvalidValue, `{"Phase1Options": {"Phase1DhGroupNumbers": [5]}}`},
		"encryption of phase 1":   {apierror.InvalidValue, `{"Phase1Options": {"Phase1EncryptionAlgorithms": ["DES"]}}`},
		"integrity of phase 1":    {apierror.InvalidValue, `{"Phase1Options": {"Phase1IntegrityAlgorithms": ["MD5"]}}`},
		"short life of phase 1":   {apierror.InvalidValue, `{"Phase1Options": {"Phase1LifetimeSeconds": 899}}`},
		"long life of phase 1":    {apierror.InvalidValue, `{"Phase1Options": {"Phase1LifetimeSeconds": 28801}}`},
		"small window":            {apierror.InvalidValue, `{"Phase1Options": {"ReplayWindowSize": 63}}`},
		"large window":            {apierror.InvalidValue, `{"Phase1Options": {"ReplayWindowSize": 2049}}`},
		"start":                   {apierror.InvalidValue, `{"Phase1Options": {"StartupAction": "go"}}`},
		"group of phase 2":        {apierror.InvalidValue, `{"Phase2Options": {"Phase2DhGroupNumbers": [1]}}`},
		"encryption of phase 2":   {apierror.InvalidValue, `{"Phase2Options": {"Phase2EncryptionAlgorithms": ["aes128"]}}`},
		"integrity of phase 2":    {apierror.InvalidValue, `{"Phase2Options": {"Phase2IntegrityAlgorithms": ["SHA2"]}}`},
		"short life of phase 2":   {apierror.InvalidValue, `{"Phase2Options": {"Phase2LifetimeSeconds": 1}}`},
		"long life of phase 2":    {apierror.InvalidValue, `{"Phase2Options": {"Phase2LifetimeSeconds": 3601}}`},
		"phase 2 outlives 1":      {apierror.InvalidParameter, `{"Phase1Options": {"Phase1LifetimeSeconds": 3600}}`},
		"a key with a quote":      {apierror.InvalidValue, `{"Phase2Options": {"PreSharedKey": "a\"b"}}`},
		"a key of two lines":      {apierror.InvalidValue, `{"Phase2Options": {"PreSharedKey": "a\nb"}}`},
		"a key with a control":    {apierror.InvalidValue, `{"Phase2Options": {"PreSharedKey": "a\u0007b"}}`},
		"a long key":              {apierror.InvalidLength, `{"Phase2Options": {"PreSharedKey": "` + strings.Repeat("é", 256) + `"}}`},
		"no range":                {apierror.InvalidBlock, `{"TunnelInsideIpRange": "169.254.254.4"}`},
		"a range of IPv6":         {apierror.InvalidBlock, `{"TunnelInsideIpRange": "fe80::/30"}`},
		"a range of another size": {apierror.InvalidRangeSize, `{"TunnelInsideIpRange": "169.254.254.0/29"}`},
		"a range elsewhere":       {apierror.InvalidValue, `{"TunnelInsideIpRange": "169.254.253.0/30"}`},
		"another's range":         {apierror.InvalidParameter, `{"TunnelInsideIpRange": "` + taken + `"}`},
		"an unknown option":       {apierror.UnknownParameter, `{"Phase3Options": {}}`},
	} {
		t.Run(name, func(t *testing.T) {
			r.With(t).Refuse(refused.code, alice, "UpdateVpnConnection",
				fmt.Sprintf(`{"VpnConnectionId": %q, "VpnOptions": %s}`, vpn, refused.options))
		})
	}

	_, err := r.Try(alice, "UpdateVpnConnection", `{"VpnConnectionId": %q, "VpnOptions": {"Phase2Options": {"PreSharedKey": "hunter\\"2"}}}`,
		vpn)
	if err == nil || strings.Contains(err.Error(), "hunter") {
		t.Errorf("a key that cannot be used is told: %v", err)
	}

	// What a change does not say stays; each option can be changed.
	before := r.connection(alice, vpn)["VpnOptions"]
	for _, nothing := range []string{`{}`, `{"Phase1Options": {}, "Phase2Options": {}}`,
		`{"Phase1Options": {"IkeVersions": [], "DpdTimeoutSeconds": 0, "StartupAction": ""}, "TunnelInsideIpRange": ""}`} {
		r.Call(alice, "UpdateVpnConnection", `{"VpnConnectionId": %q, "VpnOptions": %s}`, vpn, nothing)
		if diff := cmp.Diff(before, r.connection(alice, vpn)["VpnOptions"]); diff != "" {
			t.Errorf("%s changes (-before +after)\n%s", nothing, diff)
		}
	}
	want := `{
		"TunnelInsideIpRange": "169.254.254.255/30",
		"Phase1Options": {"DpdTimeoutAction": "restart", "DpdTimeoutSeconds": 31, "IkeVersions": ["ikev2"], "Phase1LifetimeSeconds": 1000,
			"Phase1DhGroupNumbers": [24, 2],
			"Phase1EncryptionAlgorithms": ["AES256"], "Phase1IntegrityAlgorithms": ["SHA2-512"], "ReplayWindowSize": 64, "StartupAction": "start"},
		"Phase2Options": {"Phase2DhGroupNumbers": [5], "Phase2EncryptionAlgorithms": ["AES256"], "Phase2IntegrityAlgorithms": ["SHA2-512"],
			"Phase2LifetimeSeconds": 900, "PreSharedKey": "hunter2"}
	}`
	r.Call(alice, "UpdateVpnConnection", `{"VpnConnectionId": %q, "VpnOptions": %s}`, vpn, want)
	r.Shows(object(r.connection(alice, vpn)["VpnOptions"].(map[string]any)), want)
	r.Call(alice, "UpdateVpnConnection", `{"VpnConnectionId": %q, "VpnOptions": {"Phase2Options": {"PreSharedKey": "hunter3"}}}`, vpn)
	r.Shows(object(r.connection(alice, vpn)["VpnOptions"].(map[string]any)), strings.Replace(want, "hunter2", "hunter3", 1))

	// The key is sealed wherever it is kept, and printed by nobody.
	r.Update(alice, func(tx *resource.Tx) error {
		c, err := network.VpnConnections.Get(tx, id.VpnConnection(vpn))
		if printed := fmt.Sprintf("%v %+v %#v %s", c.VpnOptions, *c.VpnOptions.Phase2Options, *c.VpnOptions.Phase2Options,
			jsonOf(t, c.VpnOptions)); strings.Contains(printed, "hunter") {
			t.Errorf("the key is printed: %s", printed)
		}
		return err
	})
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestUpdateVpnConnectionEnds(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"vpnc_limit": 2})
	e, second := r.ends(alice), r.ends(alice)
	net, table := r.net(alice, "10.0.0.0/16"), ""
	r.linkGateway(alice, e.virtual, net)
	table = r.tableByHand(alice, net)
	r.propagate(alice, table, e.virtual, true)
	vpn := r.vpn(alice, e, "192.168.0.0/16")
	r.propagated(alice, table, "192.168.0.0/16 "+e.virtual)

	got := r.One(alice, "UpdateVpnConnection", `{"VpnConnectionId": %q, "ClientGatewayId": %q}`, vpn, second.client)
	if got.Text("ClientGatewayId") != second.client || got.Text("VirtualGatewayId") != e.virtual || got.Text("State") != "pending" {
		t.Errorf("the connection is %v", got)
	}
	r.Call(alice, "DeleteClientGateway", about("ClientGatewayId", e.client))
	r.Refuse(apierror.ClientGatewayInUse, alice, "DeleteClientGateway", about("ClientGatewayId", second.client))
	r.Call(alice, "UpdateVpnConnection", `{"VpnConnectionId": %q, "VirtualGatewayId": %q}`, vpn, second.virtual)
	r.propagated(alice, table)
	r.Refuse(apierror.InUse, alice, "DeleteVirtualGateway", about("VirtualGatewayId", second.virtual))

	third := ends{second.virtual, r.clientGateway(alice, 65000, "192.0.2.2")}
	other := r.vpn(alice, third)
	lone := r.vpn(alice, ends{e.virtual, third.client})
	for name, refused := range map[string]struct {
		code apierror.Code
		body string
	}{
		"joined already": {apierror.VpnConnectionExists,
			fmt.Sprintf(`{"VpnConnectionId": %q, "ClientGatewayId": %q}`, vpn, third.client)},
		"joined to another": {apierror.VpnConnectionExists,
			fmt.Sprintf(`{"VpnConnectionId": %q, "VirtualGatewayId": %q}`, lone, second.virtual)},
		"no such client gateway": {apierror.ClientGatewayNotFound, fmt.Sprintf(`{"VpnConnectionId": %q, "ClientGatewayId": %q}`, vpn, e.client)},
		"no such virtual gateway": {apierror.VirtualGatewayNotFound,
			fmt.Sprintf(`{"VpnConnectionId": %q, "VirtualGatewayId": "vgw-00000000"}`, vpn)},
		"no such connection": {apierror.VpnConnectionNotFound, `{"VpnConnectionId": "vpn-00000000"}`},
		"too many connections": {apierror.TooManyVirtualGatewayLinks,
			fmt.Sprintf(`{"VpnConnectionId": %q, "VirtualGatewayId": %q, "ClientGatewayId": %q, "VpnOptions": {"TunnelInsideIpRange": %q}}`,
				lone, second.virtual, r.clientGateway(alice, 65000, "192.0.2.3"), r.freeInside(alice, vpn, other))},
	} {
		t.Run(name, func(t *testing.T) { r.With(t).Refuse(refused.code, alice, "UpdateVpnConnection", refused.body) })
	}
	r.Refuse(apierror.VpnConnectionNotFound, bob, "UpdateVpnConnection", about("VpnConnectionId", vpn))
	r.Refuse(apierror.TooManyVirtualGatewayLinks, alice, "CreateVpnConnection",
		ends{second.virtual, r.clientGateway(alice, 1, "192.0.2.9")}.joined(true))
}

// freeInside is a range that none of the connections has.
func (r *region) freeInside(account string, vpns ...string) string {
	r.Helper()
	var taken []string
	for _, vpn := range vpns {
		taken = append(taken, r.connection(account, vpn).At("VpnOptions", "TunnelInsideIpRange").(string))
	}
	for n := 0; ; n += 4 {
		if free := fmt.Sprintf("169.254.254.%d/30", n); !slices.Contains(taken, free) {
			return free
		}
	}
}

func TestVpnConnectionRoutes(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"static_route_limit": 2})
	e := r.ends(alice)
	vpn := r.vpn(alice, e, "192.168.0.0/16")
	dynamic := r.One(alice, "CreateVpnConnection",
		ends{e.virtual, r.clientGateway(alice, 65000, "192.0.2.2")}.joined(false)).Text("VpnConnectionId")
	routes := func(want ...string) {
		t.Helper()
		got := []string{}
		for _, route := range r.connection(alice, vpn)["Routes"].([]any) {
			route := object(route.(map[string]any))
			got = append(got, route.Text("DestinationIpRange")+" "+route.Text("State"))
			if route.Text("RouteType") != "static" {
				t.Errorf("a route is %v", route)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the routes are %q, want %q", got, want)
		}
	}
	routes("192.168.0.0/16 available")
	for name, refused := range map[string]struct {
		code         apierror.Code
		action, body string
	}{
		"there already":      {apierror.RouteExists, "CreateVpnConnectionRoute", routing(vpn, "192.168.0.0/16")},
		"by BGP":             {apierror.VpnNotStatic, "CreateVpnConnectionRoute", routing(dynamic, "192.168.0.0/16")},
		"no such connection": {apierror.VpnConnectionNotFound, "CreateVpnConnectionRoute", routing("vpn-00000000", "192.168.0.0/16")},
		"no range":           {apierror.InvalidBlock, "CreateVpnConnectionRoute", routing(vpn, "192.168.0.1/16")},
		"no such route":      {apierror.VpnRouteNotFound, "DeleteVpnConnectionRoute", routing(vpn, "192.168.0.0/17")},
		"none by BGP":        {apierror.VpnNotStatic, "DeleteVpnConnectionRoute", routing(dynamic, "192.168.0.0/16")},
		"of no connection":   {apierror.VpnConnectionNotFound, "DeleteVpnConnectionRoute", routing("vpn-00000000", "192.168.0.0/16")},
	} {
		t.Run(name, func(t *testing.T) { r.With(t).Refuse(refused.code, alice, refused.action, refused.body) })
	}
	r.Refuse(apierror.VpnConnectionNotFound, bob, "CreateVpnConnectionRoute", routing(vpn, "10.0.0.0/8"))
	r.Call(alice, "CreateVpnConnectionRoute", routing(vpn, "0.0.0.0/0"))
	r.Refuse(apierror.TooManyVpnRoutes, alice, "CreateVpnConnectionRoute", routing(vpn, "10.0.0.0/8"))
	r.Call(alice, "DeleteVpnConnectionRoute", routing(vpn, "192.168.0.0/16"))
	routes("192.168.0.0/16 deleted", "0.0.0.0/0 available")
	r.Refuse(apierror.VpnRouteNotFound, alice, "DeleteVpnConnectionRoute", routing(vpn, "192.168.0.0/16"))
	r.Call(alice, "CreateVpnConnectionRoute", routing(vpn, "10.0.0.0/8"))
	r.Call(alice, "DeleteVpnConnectionRoute", routing(vpn, "0.0.0.0/0"))
	r.Clock.Advance(time.Hour - time.Millisecond)
	routes("192.168.0.0/16 deleted", "0.0.0.0/0 deleted", "10.0.0.0/8 available")
	r.Call(alice, "CreateVpnConnectionRoute", routing(vpn, "0.0.0.0/0"))
	byRoute := func(destination string) []object {
		return r.List(alice, "ReadVpnConnections", `{"Filters": {"RouteDestinationIpRanges": [%q]}}`, destination)
	}
	r.Selects(byRoute("192.168.0.0/16"), "VpnConnectionId", vpn)
	r.Clock.Advance(time.Millisecond)
	routes("10.0.0.0/8 available", "0.0.0.0/0 available")
	r.Selects(byRoute("192.168.0.0/16"), "VpnConnectionId")
	r.Selects(byRoute("10.0.0.0/8"), "VpnConnectionId", vpn)
}

func TestReadVpnConnections(t *testing.T) {
	t.Parallel()
	r := setup(t)
	e, second := r.ends(alice), ends{r.virtualGateway(alice), r.clientGateway(alice, 65001, "192.0.2.2")}
	static, gone := r.vpn(alice, e, "192.168.0.0/16"), r.vpn(alice, ends{second.virtual, e.client}, "172.16.0.0/12")
	dynamic := r.One(alice, "CreateVpnConnection", second.joined(false)).Text("VpnConnectionId")
	r.Tag(alice, dynamic, api.Tag{Key: "env", Value: "test"})
	r.Call(alice, "DeleteVpnConnection", about("VpnConnectionId", gone))
	for name, row := range map[string]struct {
		filters string
		want    []string
	}{
		"all":                {`{}`, []string{static, gone, dynamic}},
		"by ASN":             {`{"BgpAsns": [65001]}`, []string{dynamic}},
		"by client gateway":  {fmt.Sprintf(`{"ClientGatewayIds": [%q]}`, e.client), []string{static, gone}},
		"by type":            {`{"ConnectionTypes": ["ipsec.1"]}`, []string{static, gone, dynamic}},
		"by route":           {`{"RouteDestinationIpRanges": ["172.16.0.0/12", "10.0.0.0/8"]}`, []string{gone}},
		"pending":            {`{"States": ["pending"]}`, []string{static, dynamic}},
		"deleted":            {`{"States": ["deleted"]}`, []string{gone}},
		"static":             {`{"StaticRoutesOnly": true}`, []string{static, gone}},
		"dynamic":            {`{"StaticRoutesOnly": false}`, []string{dynamic}},
		"by virtual gateway": {fmt.Sprintf(`{"VirtualGatewayIds": [%q]}`, second.virtual), []string{gone, dynamic}},
		"by ID":              {fmt.Sprintf(`{"VpnConnectionIds": [%q]}`, static), []string{static}},
		"by tag":             {`{"Tags": ["env=test"]}`, []string{dynamic}},
	} {
		t.Run(name, func(t *testing.T) {
			r.With(t).Selects(r.List(alice, "ReadVpnConnections", `{"Filters": `+row.filters+`}`), "VpnConnectionId", row.want...)
		})
	}
	if others := r.List(bob, "ReadVpnConnections", `{}`); len(others) > 0 {
		t.Errorf("bob sees %v", others)
	}
}

func TestDeleteVpnConnection(t *testing.T) {
	t.Parallel()
	r := setup(t)
	e := r.ends(alice)
	vpn := r.vpn(alice, e, "192.168.0.0/16")
	r.Refuse(apierror.ClientGatewayInUse, alice, "DeleteClientGateway", about("ClientGatewayId", e.client))
	r.Refuse(apierror.InUse, alice, "DeleteVirtualGateway", about("VirtualGatewayId", e.virtual))
	r.Refuse(apierror.VpnConnectionNotFound, bob, "DeleteVpnConnection", about("VpnConnectionId", vpn))
	_, err := r.Try(alice, "DeleteClientGateway", about("ClientGatewayId", e.client))
	if err == nil || !strings.Contains(err.Error(), vpn) {
		t.Errorf("the refusal does not name what holds the gateway: %v", err)
	}
	r.Call(alice, "DeleteVpnConnection", about("VpnConnectionId", vpn))

	// It is shown for an hour without its secret, and holds nothing.
	c := r.connection(alice, vpn)
	if c.Text("State") != "deleted" || c.Text("ClientGatewayConfiguration") != "" || c.At("VpnOptions", "Phase2Options",
		"PreSharedKey") != "" || c.At("Routes", 0, "State") != "deleted" {
		t.Errorf("the deleted connection is %v", c)
	}
	for _, action := range []string{"DeleteVpnConnection", "UpdateVpnConnection"} {
		r.Refuse(apierror.VpnConnectionNotFound, alice, action, about("VpnConnectionId", vpn))
	}
	r.Refuse(apierror.VpnConnectionNotFound, alice, "CreateVpnConnectionRoute", routing(vpn, "10.0.0.0/8"))
	again := r.vpn(alice, e)
	r.Call(alice, "DeleteVpnConnection", about("VpnConnectionId", again))
	r.Call(alice, "DeleteClientGateway", about("ClientGatewayId", e.client))
	r.Call(alice, "DeleteVirtualGateway", about("VirtualGatewayId", e.virtual))
	if c := r.connection(alice, vpn); c.Text("State") != "deleted" {
		t.Errorf("the connection outlives its gateways as %v", c)
	}
}

// No two connections have the same public address, whoever asks at once, and
// none is lost. A gateway has as many tunnels as there are ranges.
func TestVpnConnectionAddresses(t *testing.T) {
	t.Parallel()
	r := setup(t)
	gateway := map[string]string{alice: r.virtualGateway(alice), bob: r.virtualGateway(bob)}
	var clients []ends
	for n := range 64 {
		clients = append(clients, ends{alice, r.clientGateway(alice, 1+n, "192.0.2.1")}, ends{bob, r.clientGateway(bob, 1+n, "192.0.2.1")})
	}
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() {
			if _, err := r.Try(c.virtual, "CreateVpnConnection", ends{gateway[c.virtual], c.client}.joined(true)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	outside := map[string]bool{}
	for _, account := range []string{alice, bob} {
		inside := map[string]bool{}
		for _, c := range r.List(account, "ReadVpnConnections", `{"ResultsPerPage": 1000}`) {
			outside[c.At("VgwTelemetries", 0, "OutsideIpAddress").(string)] = true
			inside[c.At("VpnOptions", "TunnelInsideIpRange").(string)] = true
		}
		if len(inside) != 64 {
			t.Errorf("64 connections of a gateway have %d ranges inside", len(inside))
		}
	}
	if len(outside) != 128 {
		t.Errorf("128 connections have %d public addresses", len(outside))
	}
	one := r.clientGateway(alice, 65000, "192.0.2.1")
	r.Refuse(apierror.InsufficientCapacity, alice, "CreateVpnConnection", ends{gateway[alice], one}.joined(true))

	// An address that is given back can be taken again.
	for range 300 {
		e := ends{r.virtualGateway(bob), r.clientGateway(bob, 65000, "192.0.2.1")}
		r.Call(bob, "DeleteVpnConnection", about("VpnConnectionId", r.vpn(bob, e)))
	}
}

func TestVpnMeters(t *testing.T) {
	t.Parallel()
	r := setup(t)
	e := r.ends(alice)
	r.vpn(alice, e, "192.168.0.0/16", "172.16.0.0/12")
	most := r.vpn(alice, ends{e.virtual, r.clientGateway(alice, 65000, "192.0.2.2")}, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
		"0.0.0.0/0")
	r.Call(alice, "DeleteVpnConnectionRoute", routing(most, "0.0.0.0/0"))
	r.Update(alice, func(tx *resource.Tx) error {
		c, err := network.VpnConnections.Get(tx, id.VpnConnection(most))
		if err != nil {
			return err
		}
		c.Report.Routes = 7
		return network.VpnConnections.Put(tx, c)
	})
	for quota, want := range map[string]int{"static_route_limit": 3, "bgp_route_limit": 7} {
		at := slices.IndexFunc(network.Meters(), func(m resource.Meter) bool { return m.Quota == quota })
		if at < 0 {
			t.Fatalf("%s has no meter", quota)
		}
		r.Update(alice, func(tx *resource.Tx) error {
			for typ, used := range network.Meters()[at].Read(tx) {
				if typ != resource.Global || used != want {
					t.Errorf("of %s %d are used for %s, want %d", quota, used, typ, want)
				}
			}
			return nil
		})
	}
}
