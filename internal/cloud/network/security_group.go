package network

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// SecurityGroup filters what the VMs and NICs in it receive and send. It is of
// a [Net], or of the public Cloud.
type SecurityGroup struct {
	AccountId         id.Account          `json:"-" ref:"-"` // The account ID of the owner of the security group.
	Description       string              // The description of the security group.
	InboundRules      []SecurityGroupRule // What may be received.
	NetId             id.Net              // The ID of the Net that the group is for; absent if it is for the public Cloud.
	OutboundRules     []SecurityGroupRule // What may be sent.
	SecurityGroupId   id.SecurityGroup    // The ID of the security group.
	SecurityGroupName string              // The name of the security group, unique in its Net or in the public Cloud of the account.
	Tags              []api.Tag           // The tags of the security group.

	// Place is the name with the Net, which makes it unique there.
	Place string `wire:"-"`
}

// SecurityGroupRule lets some packets through: of one protocol, with a port in
// a range, from or to any of its ranges, members and services.
type SecurityGroupRule struct {
	FromPortRange         int                    // The first port, or the type of ICMP; -1 for all.
	IpProtocol            string                 // `tcp`, `udp`, `icmp`, a protocol number, or `-1` for all.
	IpRanges              []api.CIDR             // The ranges that packets may come from or go to.
	SecurityGroupRuleId   string                 // The ID of the rule.
	SecurityGroupsMembers []SecurityGroupsMember // The security groups whose NICs packets may come from or go to.
	ServiceIds            []string               // The IDs of the services that packets may go to.
	ToPortRange           int                    // The last port, or the code of ICMP; -1 for all.
}

// SecurityGroupsMember is a security group that a rule names.
type SecurityGroupsMember struct {
	AccountId         id.Account       `ref:"-"` // The account ID of the owner of the group.
	SecurityGroupId   id.SecurityGroup `ref:"-"` // The ID of the group.
	SecurityGroupName string           // The name of the group.
}

// SecurityGroups are the security groups of the region.
var SecurityGroups = &kind.Kind[SecurityGroup, id.SecurityGroup]{
	Name:    "SecurityGroup",
	Tag:     "security-group",
	Missing: fault.SecurityGroupNotFound,
	Held:    fault.SecurityGroupInUse,
	Unique:  []string{"Place"},
	Taken:   fault.SecurityGroupNameTaken,
}

// defaultGroup is the name of the group for whoever names none. Each Net has
// one, and each account one for the public Cloud.
const defaultGroup = "default"
