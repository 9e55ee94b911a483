package network

import (
	"encoding/xml"
	"net"
	"strconv"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
)

// configuration is what a client gateway must be told of its connection. The
// names of the elements are those that programs which set gateways up look for.
type configuration struct {
	XMLName    xml.Name    `xml:"vpn_connection"`
	ID         string      `xml:"id,attr"`
	Client     string      `xml:"customer_gateway_id"`
	Virtual    string      `xml:"vpn_gateway_id"`
	Type       string      `xml:"vpn_connection_type"`
	Attributes string      `xml:"vpn_connection_attributes,omitempty"`
	Tunnel     ipsecTunnel `xml:"ipsec_tunnel"`
}

type ipsecTunnel struct {
	Client  tunnelEnd     `xml:"customer_gateway"`
	Virtual tunnelEnd     `xml:"vpn_gateway"`
	Ike     ikeExchange   `xml:"ike"`
	Ipsec   ipsecExchange `xml:"ipsec"`
}

type tunnelEnd struct {
	Outside  string     `xml:"tunnel_outside_address>ip_address"`
	Inside   insideEnd  `xml:"tunnel_inside_address"`
	Asn      GatewayAsn `xml:"bgp>asn"`
	HoldTime int        `xml:"bgp>hold_time"`
}

type insideEnd struct {
	Address string `xml:"ip_address"`
	Mask    string `xml:"network_mask"`
	Bits    int    `xml:"network_cidr"`
}

// exchange is what both phases of the key exchange say, the first of what may
// be used.
type exchange struct {
	Integrity  string `xml:"authentication_protocol"`
	Encryption string `xml:"encryption_protocol"`
	Lifetime   int    `xml:"lifetime"`
	Group      string `xml:"perfect_forward_secrecy"`
	Mode       string `xml:"mode"`
}

type ikeExchange struct {
	exchange
	Key string `xml:"pre_shared_key"`
}

type ipsecExchange struct {
	Protocol string `xml:"protocol"`
	exchange
	ClearDF        bool `xml:"clear_df_bit"`
	FragmentBefore bool `xml:"fragmentation_before_encryption"`
	MaxSegment     int  `xml:"tcp_mss_adjustment"`
	DpdInterval    int  `xml:"dead_peer_detection>interval"`
	DpdRetries     int  `xml:"dead_peer_detection>retries"`
}

const (
	// holdTime is after how many seconds of silence BGP takes the other end for
	// dead.
	holdTime = 30

	// maxSegment is what is left for TCP of a packet of 1500 bytes once the
	// headers and the padding of the tunnel are added, whatever the algorithms.
	maxSegment = 1379

	// dpdInterval is how many seconds an end waits before it asks the other one
	// again whether it lives.
	dpdInterval = 10
)

// configuration is the document for the client gateway of the connection.
func (c *VpnConnection) configuration(client *ClientGateway) string {
	first, second := c.VpnOptions.Phase1Options, c.VpnOptions.Phase2Options
	inside := c.VpnOptions.TunnelInsideIpRange.Prefix()
	end := func(outside api.IPv4, at int, asn GatewayAsn) tunnelEnd {
		mask := net.IP(net.CIDRMask(inside.Bits(), inside.Addr().BitLen())).String()
		return tunnelEnd{string(outside), insideEnd{nth(inside, at).String(), mask, inside.Bits()}, asn, holdTime}
	}
	doc := configuration{
		ID:      string(c.VpnConnectionId),
		Client:  string(c.ClientGatewayId),
		Virtual: string(c.VirtualGatewayId),
		Type:    string(c.ConnectionType),
		Tunnel: ipsecTunnel{
			Client:  end(client.PublicIp, clientsInside, client.BgpAsn),
			Virtual: end(c.OutsideIp, oursInside, regionAsn),
			Ike: ikeExchange{
				exchange: newExchange(first.Phase1IntegrityAlgorithms, first.Phase1EncryptionAlgorithms, first.Phase1DhGroupNumbers,
					first.Phase1LifetimeSeconds, "main"),
				Key: string(second.PreSharedKey),
			},
			Ipsec: ipsecExchange{
				Protocol: "esp",
				exchange: newExchange(second.Phase2IntegrityAlgorithms, second.Phase2EncryptionAlgorithms, second.Phase2DhGroupNumbers,
					second.Phase2LifetimeSeconds, "tunnel"),
				ClearDF: true, FragmentBefore: true, MaxSegment: maxSegment,
				DpdInterval: dpdInterval, DpdRetries: first.DpdTimeoutSeconds / dpdInterval,
			},
		},
	}
	if c.StaticRoutesOnly {
		doc.Attributes = "NoBGPVPNConnection"
	}
	text, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return xml.Header + string(text) + "\n"
}

// The numbers of the addresses inside of a tunnel in its range.
const oursInside, clientsInside = 1, 2

// newExchange names the first of what may be used as routers do: AES128 is
// aes-128-cbc.
func newExchange(integrities, encryptions []string, groups []int, lifetime int, mode string) exchange {
	encryption := "aes-" + strings.ToLower(strings.TrimPrefix(encryptions[0], "AES"))
	if !strings.Contains(encryption, "gcm") {
		encryption += "-cbc"
	}
	return exchange{strings.ToLower(integrities[0]), encryption, lifetime, "group" + strconv.Itoa(groups[0]), mode}
}
