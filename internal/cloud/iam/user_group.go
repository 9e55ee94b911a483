package iam

import (
	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// User groups are not built yet: there are none, and none can be made. They can
// be read, because tools list them when they look for what is left.
func userGroupActions() []api.Action {
	return []api.Action{api.Do("UserGroup", readUserGroups)}
}

// UserGroup is a group of EIM users.
type UserGroup struct {
	CreationDate         api.DateTime // When the group was created (UTC).
	LastModificationDate api.DateTime // When the group last changed (UTC).
	Name                 string       // The name of the group.
	Orn                  string       // The resource name of the group.
	Path                 Path         // Where in the organization the group is.
	UserGroupId          string       // The ID of the group.
}

// ReadUserGroupsRequest asks for user groups, of which there are none yet.
type ReadUserGroupsRequest struct {
	Filters *FiltersUserGroup // One or more filters.
	api.IndexPage
}

// FiltersUserGroup selects user groups.
type FiltersUserGroup struct {
	PathPrefix   string   // What the paths of the groups begin with, `/` by default.
	UserGroupIds []string // The IDs of the groups.
}

// ReadUserGroupsResponse shows a page of user groups.
type ReadUserGroupsResponse struct {
	UserGroups []UserGroup // The user groups.
	api.IndexedPage
}

func readUserGroups(_ *resource.Tx, req *ReadUserGroupsRequest) (*ReadUserGroupsResponse, error) {
	return &ReadUserGroupsResponse{IndexedPage: api.IndexedPage{MaxResultsLimit: req.ResultsPerPage}}, nil
}
