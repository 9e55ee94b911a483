package network_test

import (
	"github.com/bastide-cloud/bastide/internal/api"

	"fmt"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// clientGateway makes a client gateway and answers its ID.
func (r *region) clientGateway(account string, asn int, ip string) string {
	r.Helper()
	return r.One(account, "CreateClientGateway", describing(asn, ip)).Text("ClientGatewayId")
}

func describing(asn int, ip string) string {
	return fmt.Sprintf(`{"BgpAsn": %d, "PublicIp": %q, "ConnectionType": "ipsec.1"}`, asn, ip)
}

func TestCreateClientGateway(t *testing.T) {
	t.Parallel()
	r := setup(t)
	got := r.One(alice, "CreateClientGateway", describing(65000, "192.0.2.0"))
	r.Shows(got, `{"BgpAsn": 65000, "ClientGatewayId": %q, "ConnectionType": "ipsec.1", "PublicIp": "192.0.2.0", "State": "available",
		"Tags": []}`, got.Text("ClientGatewayId"))
	for _, asn := range []int{1, 50623, 4294967295} {
		r.clientGateway(alice, asn, "192.0.2.1")
	}
	for _, ip := range []string{"192.0.2.0", "198.18.0.1", "203.0.113.255", "1.1.1.1", "223.255.255.255", "100.63.255.255", "172.32.0.0",
		"169.253.0.1"} {
		r.clientGateway(alice, 65000, ip)
	}
	for name, refused := range map[string]struct {
		code apierror.Code
		body string
	}{
		"ASN 0":              {apierror.InvalidAsn, describing(0, "192.0.2.1")},
		"a negative ASN":     {apierror.InvalidAsn, describing(-1, "192.0.2.1")},
		"an ASN of 33 bits":  {apierror.InvalidAsn, describing(4294967296, "192.0.2.1")},
		"the region's ASN":   {apierror.InvalidAsn, describing(50624, "192.0.2.1")},
		"a second one":       {apierror.InvalidAsn, describing(53306, "192.0.2.1")},
		"a third one":        {apierror.InvalidAsn, describing(132418, "192.0.2.1")},
		"no address":         {apierror.InvalidIP, describing(65000, "192.0.2.1/32")},
		"no address at all":  {apierror.InvalidIP, describing(65000, "")},
		"IPv6":               {apierror.InvalidIP, describing(65000, "2001:db8::1")},
		"10/8":               {apierror.InvalidIPAddress, describing(65000, "10.255.255.255")},
		"172.16/12":          {apierror.InvalidIPAddress, describing(65000, "172.31.0.1")},
		"192.168/16":         {apierror.InvalidIPAddress, describing(65000, "192.168.0.1")},
		"shared":             {apierror.InvalidIPAddress, describing(65000, "100.64.0.0")},
		"the machine itself": {apierror.InvalidIPAddress, describing(65000, "127.0.0.1")},
		"link-local":         {apierror.InvalidIPAddress, describing(65000, "169.254.254.1")},
		"any":                {apierror.InvalidIPAddress, describing(65000, "0.0.0.0")},
		"a group":            {apierror.InvalidIPAddress, describing(65000, "224.0.0.1")},
		"everybody":          {apierror.InvalidIPAddress, describing(65000, "255.255.255.255")},
		"another type":       {apierror.InvalidVpnType, `{"BgpAsn": 1, "PublicIp": "192.0.2.1", "ConnectionType": "gre"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := r.With(t)
			r.Refuse(refused.code, alice, "CreateClientGateway", refused.body)
		})
	}
}

func TestReadClientGateways(t *testing.T) {
	t.Parallel()
	r := setup(t, map[string]int{"cgw_limit": 3})
	one, two, gone := r.clientGateway(alice, 65000, "192.0.2.1"), r.clientGateway(alice, 65001, "192.0.2.2"), r.clientGateway(alice, 65000,
		"192.0.2.3")
	r.Refuse(apierror.TooManyClientGateways, alice, "CreateClientGateway", describing(65000, "192.0.2.4"))
	r.Refuse(apierror.ClientGatewayNotFound, bob, "DeleteClientGateway", about("ClientGatewayId", gone))
	r.Call(alice, "DeleteClientGateway", about("ClientGatewayId", gone))
	r.Refuse(apierror.ClientGatewayNotFound, alice, "DeleteClientGateway", about("ClientGatewayId", gone))
	// The same gateway may be described twice.
	twin := r.clientGateway(alice, 65000, "192.0.2.1")
	r.Tag(alice, two, api.Tag{Key: "env", Value: "test"})
	for name, row := range map[string]struct {
		filters string
		want    []string
	}{
		"all":         {`{}`, []string{one, two, gone, twin}},
		"by ASN":      {`{"BgpAsns": [65001, 7]}`, []string{two}},
		"by ID":       {fmt.Sprintf(`{"ClientGatewayIds": [%q]}`, one), []string{one}},
		"by type":     {`{"ConnectionTypes": ["ipsec.1"]}`, []string{one, two, gone, twin}},
		"by address":  {`{"PublicIps": ["192.0.2.1"]}`, []string{one, twin}},
		"deleted":     {`{"States": ["deleted"]}`, []string{gone}},
		"by tag key":  {`{"TagKeys": ["env"]}`, []string{two}},
		"by no value": {`{"TagValues": ["prod"]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := r.With(t)
			r.Selects(r.List(alice, "ReadClientGateways", `{"Filters": `+row.filters+`}`), "ClientGatewayId", row.want...)
		})
	}
}
