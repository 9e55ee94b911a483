package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	oscv2 "github.com/outscale/osc-sdk-go/v2"
	"github.com/outscale/osc-sdk-go/v3/pkg/options"
	oscv3 "github.com/outscale/osc-sdk-go/v3/pkg/osc"
	"github.com/outscale/osc-sdk-go/v3/pkg/profile"
)

// The real clients drive a started binary here, unmodified.

// TestSDKv3 is a newcomer's first session with the Go SDK.
func TestSDKv3(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	ctx := t.Context()
	made, err := sdk(t, p, p.root.AccessKey, p.root.SecretKey).CreateAccessKey(ctx, oscv3.CreateAccessKeyRequest{})
	must(t, err)
	key := made.AccessKey
	if key == nil || key.SecretKey == nil || key.CreationDate == nil || *key.State != "ACTIVE" {
		t.Fatalf("the new key is %+v", key)
	}
	c := sdk(t, p, *key.AccessKeyId, *key.SecretKey)
	net, err := c.CreateNet(ctx, oscv3.CreateNetRequest{IpRange: "10.0.0.0/16"})
	must(t, err)
	netID := net.Net.NetId
	for _, ipRange := range []string{"10.0.0.0/24", "10.0.1.0/24"} {
		subnet, err := c.CreateSubnet(ctx, oscv3.CreateSubnetRequest{NetId: netID, IpRange: ipRange})
		must(t, err)
		if subnet.Subnet.AvailableIpsCount != 251 || subnet.Subnet.SubregionName != "eu-west-2a" {
			t.Errorf("the new Subnet is %+v", subnet.Subnet)
		}
	}

	_, err = c.CreateSubnet(ctx, oscv3.CreateSubnetRequest{NetId: netID, IpRange: "10.0.1.0/25"})
	if !oscv3.IsConflict(err) {
		t.Errorf("an overlapping Subnet: %v, want what the SDK takes for a conflict", err)
	}
	_, err = c.DeleteNet(ctx, oscv3.DeleteNetRequest{NetId: "vpc-00000000"})
	if !oscv3.IsNotFound(err) {
		t.Errorf("an absent Net: %v, want what the SDK takes for not found", err)
	}
	_, err = sdk(t, p, "AAAAAAAAAAAAAAAAAAAA", *key.SecretKey).ReadNets(ctx, oscv3.ReadNetsRequest{})
	if !oscv3.IsAuthError(err) {
		t.Errorf("an unknown key: %v, want what the SDK takes for an authentication error", err)
	}
	_, err = sdk(t, p, *key.AccessKeyId, p.root.SecretKey).ReadNets(ctx, oscv3.ReadNetsRequest{})
	if !oscv3.IsAuthError(err) {
		t.Errorf("a wrong secret: %v, want what the SDK takes for an authentication error", err)
	}

	name := "CreateSubnet"
	logs, err := c.ReadApiLogs(ctx, oscv3.ReadApiLogsRequest{Filters: &oscv3.FiltersApiLog{QueryCallNames: &[]string{name}}})
	must(t, err)
	if got := len(*logs.Logs); got != 3 {
		t.Errorf("the API log has %d calls of %s, want 3", got, name)
	}

	p.stop(t)
	p = start(t, data)
	nets, err := sdk(t, p, *key.AccessKeyId, *key.SecretKey).ReadNets(ctx,
		oscv3.ReadNetsRequest{Filters: &oscv3.FiltersNet{NetIds: &[]string{netID}}})
	must(t, err)
	if len(*nets.Nets) != 1 || (*nets.Nets)[0].IpRange != "10.0.0.0/16" {
		t.Errorf("after a restart the Nets are %+v", *nets.Nets)
	}
	p.stop(t)
}

// sdk is the Go SDK with an access key.
func sdk(t *testing.T, p *process, accessKey, secretKey string) *oscv3.Client {
	t.Helper()
	c, err := oscv3.NewClient(&profile.Profile{
		AccessKey: accessKey, SecretKey: secretKey, Region: "eu-west-2",
		Endpoints: profile.Endpoint{API: p.url + "/api/v1"},
	}, options.WithoutRatelimit(), options.WithoutLogging())
	must(t, err)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSDKv2(t *testing.T) {
	t.Parallel()
	p := start(t, filepath.Join(t.TempDir(), "data"))
	config := oscv2.NewConfiguration()
	config.Servers = oscv2.ServerConfigurations{{URL: p.url + "/api/v1"}}
	c := oscv2.NewAPIClient(config)
	ctx := context.WithValue(t.Context(), oscv2.ContextAWSv4, oscv2.AWSv4{AccessKey: p.root.AccessKey, SecretKey: p.root.SecretKey})

	accounts, _, err := c.AccountApi.ReadAccounts(ctx).Execute() // without a request: the body is null
	must(t, err)
	if got := accounts.GetAccounts()[0].GetAccountId(); got != p.root.AccountID {
		t.Errorf("the account is %s, want %s", got, p.root.AccountID)
	}
	net, _, err := c.NetApi.CreateNet(ctx).CreateNetRequest(*oscv2.NewCreateNetRequest("10.0.0.0/16")).Execute()
	must(t, err)
	tags := *oscv2.NewCreateTagsRequest([]string{net.Net.GetNetId()}, []oscv2.ResourceTag{*oscv2.NewResourceTag("Name", "first")})
	_, _, err = c.TagApi.CreateTags(ctx).CreateTagsRequest(tags).Execute()
	must(t, err)
	found, _, err := c.NetApi.ReadNets(ctx).ReadNetsRequest(
		oscv2.ReadNetsRequest{Filters: &oscv2.FiltersNet{Tags: &[]string{"Name=first"}}}).Execute()
	must(t, err)
	if len(found.GetNets()) != 1 {
		t.Errorf("the Nets with the tag are %+v", found.GetNets())
	}
	rules, _, err := c.ApiAccessRuleApi.ReadApiAccessRules(ctx).ReadApiAccessRulesRequest(oscv2.ReadApiAccessRulesRequest{}).Execute()
	must(t, err)
	if len(rules.GetApiAccessRules()) != 1 {
		t.Errorf("the API access rules are %+v", rules.GetApiAccessRules())
	}
	regions, _, err := c.RegionApi.ReadRegions(t.Context()).ReadRegionsRequest(oscv2.ReadRegionsRequest{}).Execute()
	must(t, err)
	if regions.GetRegions()[0].GetRegionName() != "eu-west-2" {
		t.Errorf("unsigned, the Regions are %+v", regions.GetRegions())
	}
	basic := context.WithValue(t.Context(), oscv2.ContextBasicAuth, oscv2.BasicAuth{UserName: p.root.Email, Password: p.root.Password})
	keys, _, err := c.AccessKeyApi.ReadAccessKeys(basic).ReadAccessKeysRequest(oscv2.ReadAccessKeysRequest{}).Execute()
	must(t, err)
	if len(keys.GetAccessKeys()) != 1 {
		t.Errorf("with login and password, the access keys are %+v", keys.GetAccessKeys())
	}
	p.stop(t)
}

func TestCurl(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed: apt-get install curl")
	}
	p := start(t, filepath.Join(t.TempDir(), "data"))
	call := func(action, body string, more ...string) map[string]any {
		t.Helper()
		args := append([]string{"-sS", "-X", "POST", p.url + "/api/v1/" + action, "-H", "Content-Type: application/json", "-d", body}, more...)
		out, err := exec.CommandContext(t.Context(), curl, args...).Output()
		must(t, err)
		var answer map[string]any
		if err := json.Unmarshal(out, &answer); err != nil {
			t.Fatalf("%s: %v: %s", action, err, out)
		}
		return answer
	}
	user := p.root.AccessKey + ":" + p.root.SecretKey
	if answer := call("ReadAccounts", "{}", "--aws-sigv4", "osc", "--user", user); answer["Accounts"] == nil {
		t.Errorf("signed by OSC4: %v", answer)
	}
	if answer := call("CreateNet", `{"IpRange": "10.0.0.0/16"}`, "--aws-sigv4", "aws:amz:eu-west-2:api", "--user",
		user); answer["Net"] == nil {
		t.Errorf("signed by AWS4: %v", answer)
	}
	if answer := call("ReadAccessKeys", "{}", "--user", p.root.Email+":"+p.root.Password); answer["AccessKeys"] == nil {
		t.Errorf("with login and password: %v", answer)
	}
	if answer := call("ReadNets", "{}", "--aws-sigv4", "osc", "--user", p.root.AccessKey+":wrong"); answer["Errors"] == nil {
		t.Errorf("with a wrong secret: %v", answer)
	}
	if answer := call("ReadNets", "{}", "-H", "Authorization: "+p.root.AccessKey); !strings.Contains(toJSON(t, answer), "proves nothing") {
		t.Errorf("with a bare access key: %v", answer)
	}
	p.stop(t)
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return string(text)
}
