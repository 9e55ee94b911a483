package metadata_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/metadata"
	"pgregory.net/rapid"
)

var addr, prefix = netip.MustParseAddr, netip.MustParsePrefix

// sample is a machine in a Net with everything that one can have.
var sample = metadata.Machine{
	ID: "i-00000001", Image: "ami-00000001", Type: "tinav5.c2r4p1", Reservation: "r-00000001", Index: 2,
	Hostname: "ip-10-0-0-4.region.compute.internal", PublicHostname: "ows-198-51-100-4.region.compute.example.com",
	PublicIP:  addr("198.51.100.4"),
	Subregion: "region-a", Devices: []string{"/dev/sda1", "/dev/xvdb", "/dev/xvdc"},
	Nics: []metadata.Nic{
		{
			ID: "eni-00000001", MAC: "aa:00:00:00:00:01", Owner: "000000000001", Hostname: "ip-10-0-0-4.region.compute.internal",
			Private: []netip.Addr{addr("10.0.0.4"), addr("10.0.0.5")}, Public: []netip.Addr{addr("198.51.100.4")}, Gateway: addr("10.0.0.1"),
			Net: "vpc-00000001", Subnet: "subnet-00000001", NetRange: prefix("10.0.0.0/16"), SubnetRange: prefix("10.0.0.0/24"),
			GroupIDs: []string{"sg-00000001", "sg-00000002"},
		},
		{ID: "eni-00000002", MAC: "aa:00:00:00:00:02", Device: 1, Private: []netip.Addr{addr("10.0.1.4")}},
	},
	KeyName: "mine", Key: "ssh-ed25519 AAAA mine", SecurityGroups: []string{"web", "default"},
	Tags: map[string]string{"Name": "one", "team": "", "example.com/role": "a\nb", "example.org/role": "e", "example.com": "c",
		"with space": "d"},
}

// ask asks a machine for a path.
func ask(t testing.TB, h http.Handler, method, path string) (status int, kind, body string) {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(method, "http://169.254.169.254"+path, nil))
	result := answer.Result()
	content, err := io.ReadAll(result.Body)
	if err != nil {
		t.Fatal(err)
	}
	return result.StatusCode, result.Header.Get("Content-Type"), string(content)
}

func TestHandler(t *testing.T) {
	t.Parallel()
	whole := metadata.Handler(sample.Paths(), []byte("#cloud-config\n\x00\xff"))
	bare := metadata.Handler(metadata.Machine{
		ID: "i-00000002", Nics: []metadata.Nic{{MAC: "aa:00:00:00:00:03", Private: []netip.Addr{addr("10.9.0.4")}}},
	}.Paths(), nil)
	const absent = "absent"
	cases := []struct {
		name, path, want string
		of               http.Handler
	}{
		{"the versions", "/", "2009-04-04\nlatest", whole},
		{"a version", "/latest", "meta-data/\nuser-data", whole},
		{"a version with a slash", "/latest/", "meta-data/\nuser-data", whole},
		{"a version without user data", "/latest/", "meta-data/", bare},
		{"a version that there is not", "/2016-09-02/meta-data/instance-id", absent, whole},
		{"the version of cloud-init", "/2009-04-04/meta-data/instance-id", "i-00000001", whole},
		{"another thing of a version", "/latest/dynamic/instance-identity", absent, whole},
		{"all", "/latest/meta-data/", `ami-id
ami-launch-index
block-device-mapping/
hostname
instance-id
instance-type
local-hostname
local-ipv4
mac
network/
placement/
public-hostname
public-ipv4
public-keys/
reservation-id
security-groups
tags/`, whole},
		{"what there is of little", "/latest/meta-data", "ami-launch-index\ninstance-id\nlocal-ipv4\nmac\nnetwork/", bare},
		{"an id", "/latest/meta-data/instance-id", "i-00000001", whole},
		{"an id with a slash", "/latest/meta-data/instance-id/", "i-00000001", whole},
		{"below an id", "/latest/meta-data/instance-id/more", absent, whole},
		{"half a name", "/latest/meta-data/instance", absent, whole},
		{"out and in again", "/latest/meta-data/../meta-data/instance-id", absent, whole},
		{"the number", "/latest/meta-data/ami-launch-index", "2", whole},
		{"the number of the first", "/latest/meta-data/ami-launch-index", "0", bare},
		{"the type", "/latest/meta-data/instance-type", "tinav5.c2r4p1", whole},
		{"the primary address", "/latest/meta-data/local-ipv4", "10.0.0.4", whole},
		{"the public address", "/latest/meta-data/public-ipv4", "198.51.100.4", whole},
		{"the public address of who has none", "/latest/meta-data/public-ipv4", absent, bare},
		{"the Subregion", "/latest/meta-data/placement/availability-zone", "region-a", whole},
		{"the placement", "/latest/meta-data/placement", "availability-zone", whole},
		{"the disks", "/latest/meta-data/block-device-mapping/", "ami\nebs1\nebs2\nroot", whole},
		{"the root", "/latest/meta-data/block-device-mapping/root", "/dev/sda1", whole},
		{"the image's", "/latest/meta-data/block-device-mapping/ami", "/dev/sda1", whole},
		{"another disk", "/latest/meta-data/block-device-mapping/ebs2", "/dev/xvdc", whole},
		{"a disk that there is not", "/latest/meta-data/block-device-mapping/ebs3", absent, whole},
		{"the network", "/latest/meta-data/network/", "interfaces/", whole},
		{"the NICs", "/latest/meta-data/network/interfaces/macs/", "aa:00:00:00:00:01/\naa:00:00:00:00:02/", whole},
		{"a NIC", "/latest/meta-data/network/interfaces/macs/aa:00:00:00:00:01/", `device-number
gateway-ipv4
interface-id
local-hostname
local-ipv4s
mac
owner-id
public-ipv4s
security-group-ids
subnet-id
subnet-ipv4-cidr-block
vpc-id
vpc-ipv4-cidr-block`, whole},
		{"the addresses of a NIC", "/latest/meta-data/network/interfaces/macs/aa:00:00:00:00:01/local-ipv4s", "10.0.0.4\n10.0.0.5", whole},
		{"the range of a NIC", "/latest/meta-data/network/interfaces/macs/aa:00:00:00:00:01/subnet-ipv4-cidr-block", "10.0.0.0/24", whole},
		{"a number of a NIC", "/latest/meta-data/network/interfaces/macs/aa:00:00:00:00:02/device-number", "1", whole},
		{"a NIC that there is not", "/latest/meta-data/network/interfaces/macs/aa:00:00:00:00:09/", absent, whole},
		{"the keys", "/latest/meta-data/public-keys/", "0=mine", whole},
		{"a key", "/latest/meta-data/public-keys/0", "openssh-key", whole},
		{"a key itself", "/latest/meta-data/public-keys/0/openssh-key", "ssh-ed25519 AAAA mine", whole},
		{"no key", "/latest/meta-data/public-keys/", absent, bare},
		{"the groups", "/latest/meta-data/security-groups", "web\ndefault", whole},
		{"the tags", "/latest/meta-data/tags", "Name\nexample.com\nexample.com/role\nexample.org/role\nteam\nwith space", whole},
		{"the tags with a slash", "/latest/meta-data/tags/", "Name\nexample.com\nexample.com/role\nexample.org/role\nteam\nwith space", whole},
		{"a tag", "/latest/meta-data/tags/Name", "one", whole},
		{"a tag without a value", "/latest/meta-data/tags/team", "", whole},
		{"a tag with a slash", "/latest/meta-data/tags/example.com/role", "a\nb", whole},
		{"a tag with a slash, escaped", "/latest/meta-data/tags/example.com%2Frole", "a\nb", whole},
		{"a tag that begins another", "/latest/meta-data/tags/example.com", "c", whole},
		{"half a tag", "/latest/meta-data/tags/example.org", absent, whole},
		{"a tag with a space", "/latest/meta-data/tags/with%20space", "d", whole},
		{"a tag in another case", "/latest/meta-data/tags/name", absent, whole},
		{"no tags", "/latest/meta-data/tags/", absent, bare},
		{"user data", "/latest/user-data", "#cloud-config\n\x00\xff", whole},
		{"user data with a slash", "/latest/user-data/", "#cloud-config\n\x00\xff", whole},
		{"below user data", "/latest/user-data/more", absent, whole},
		{"no user data", "/latest/user-data", absent, bare},
		{"a token", "/latest/api/token", absent, whole},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			status, kind, body := ask(t, c.of, http.MethodGet, c.path)
			if c.want == absent {
				if status != http.StatusNotFound || !strings.Contains(body, "nothing") {
					t.Errorf("%s: got %d %q, want 404", c.path, status, body)
				}
				return
			}
			if status != http.StatusOK || body != c.want {
				t.Errorf("%s: got %d %q, want %q", c.path, status, body, c.want)
			}
			if want := "text/plain; charset=utf-8"; !strings.Contains(c.path, "user-data") && kind != want {
				t.Errorf("%s is %s, want %s", c.path, kind, want)
			}
		})
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	h := metadata.Handler(sample.Paths(), []byte("#!/bin/sh"))
	cases := []struct {
		method, path string
		status       int
		body         string
	}{
		{http.MethodHead, "/latest/meta-data/instance-id", http.StatusOK, ""},
		{http.MethodPut, "/latest/api/token", http.StatusNotFound, "there is nothing at /latest/api/token\n"},
		{http.MethodPut, "/latest/meta-data/instance-id", http.StatusMethodNotAllowed, "metadata can only be read\n"},
		{http.MethodPost, "/latest/user-data", http.StatusMethodNotAllowed, "metadata can only be read\n"},
		{http.MethodDelete, "/latest/meta-data/nothing", http.StatusNotFound, "there is nothing at /latest/meta-data/nothing\n"},
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	for _, c := range cases {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			// What a client of AWS sends with a session changes nothing.
			request.Header.Set("X-aws-ec2-metadata-token", "AQAE")
			answer, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != c.status || string(body) != c.body {
				t.Errorf("got %d %q %v, want %d %q", answer.StatusCode, body, err, c.status, c.body)
			}
		})
	}
}

// Whoever follows the lists from the root comes to every value that there is,
// and to nothing else: cloud-init reads the tree so.
func TestListsLeadEverywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		m := sample
		m.Tags = rapid.MapOf(rapid.StringMatching(`[a-c/ %é]{1,5}`), rapid.String()).Draw(r, "tags")
		m.Nics = m.Nics[:rapid.IntRange(0, 2).Draw(r, "NICs")]
		h := metadata.Handler(m.Paths(), nil)
		found := map[string]string{}
		var follow func(at string)
		follow = func(at string) {
			status, _, list := ask(t, h, http.MethodGet, "/latest/meta-data/"+at)
			if status != http.StatusOK {
				r.Fatalf("%q is listed and answers %d", at, status)
			}
			for name := range strings.SplitSeq(list, "\n") {
				switch number, _, isKey := strings.Cut(name, "="); {
				case isKey:
					follow(at + number + "/")
				case strings.HasSuffix(name, "/") && at != "tags/":
					follow(at + name)
				default:
					status, _, value := ask(t, h, http.MethodGet, "/latest/meta-data/"+at+url.PathEscape(name))
					if status != http.StatusOK {
						r.Fatalf("%q is listed and answers %d", at+name, status)
					}
					found[at+name] = value
				}
			}
		}
		follow("")
		want := m.Paths()
		delete(want, "public-keys") // which is how the list there looks
		for path, value := range want {
			if got, ok := found[path]; !ok || got != value {
				r.Errorf("%q: found %q (%t), want %q", path, got, ok, value)
			}
		}
		if len(found) != len(want) {
			r.Errorf("found %d values, want %d: %v", len(found), len(want), found)
		}
	})
}

func FuzzHandler(f *testing.F) {
	for _, path := range []string{"/", "/latest/meta-data/tags/a/b", "//latest//", "/latest/user-data/", "/latest/meta-data/%2e%2e/"} {
		f.Add(path)
	}
	h := metadata.Handler(sample.Paths(), []byte("secret"))
	f.Fuzz(func(t *testing.T, path string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = path
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		if answer.Code != http.StatusOK && answer.Code != http.StatusNotFound {
			t.Errorf("%q: %d", path, answer.Code)
		}
		if answer.Body.String() == "secret" && !strings.Contains(path, "/user-data") {
			t.Errorf("%q answers user data", path)
		}
	})
}
