package iam

import (
	"regexp"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// UserGroup is a group of EIM users, to whom its policies apply. The users name
// the groups that they are in: see [User].
type UserGroup struct {
	CreationDate         api.DateTime  // When the group was created (UTC).
	LastModificationDate api.DateTime  // When the group last changed (UTC).
	Name                 UserGroupName // The name of the group, unique in the account. Upper and lower case differ.
	Orn                  string        `json:"-"` // The OUTSCALE Resource Name (ORN) of the group.
	Path                 Path          // Where in the organization the group is.
	UserGroupId          id.UserGroup  // The ID of the group, which a new name leaves as it is.

	Permissions Permissions `wire:"-"` // What the users of the group may do.
}

// UserGroups are the groups of EIM users of an account. One that users are in
// stays.
var UserGroups = &resource.Kind[UserGroup, id.UserGroup]{
	Name: "UserGroup", Unique: []string{"Name"}, Conflict: apierror.UserGroupNameTaken,
}

// maxUserGroups bounds the groups of an account.
const maxUserGroups = 300

func userGroupActions() []api.Action {
	r := api.NewResource(UserGroups, viewUserGroup)
	return []api.Action{
		api.Create(r, createUserGroup).AsSensitive(),
		api.Do("UserGroup", readUserGroups),
		api.Do("UserGroup", readUserGroup),
		api.Do("UserGroup", updateUserGroup).AsSensitive(),
		api.Command("UserGroup", deleteUserGroup).AsSensitive(),
		api.Command("UserGroup", addUserToUserGroup).AsSensitive(),
		api.Command("UserGroup", removeUserFromUserGroup).AsSensitive(),
		api.Do("UserGroup", readUserGroupsPerUser),
	}
}

func viewUserGroup(tx *resource.Tx, g *UserGroup) *UserGroup {
	shown := *g
	shown.Orn = orn(tx.Account(), "usergroup", g.Path, string(g.Name))
	return &shown
}

// UserGroupName is the name of a group: 1 to 128 alphanumeric characters and
// + = , . @ - _.
type UserGroupName string

var groupNames = regexp.MustCompile(`^[A-Za-z0-9+=,.@_-]{1,128}$`)

// Check reports a name that no group can have.
func (n UserGroupName) Check() error {
	if !groupNames.MatchString(string(n)) {
		return apierror.InvalidValue.Errorf("'%.200s' is not a name of 1 to 128 alphanumeric characters and + = , . @ - _.", string(n))
	}
	return nil
}

// groupNamed finds the group of a name.
func groupNamed(tx *resource.Tx, name string) (*UserGroup, error) {
	for g := range UserGroups.Where(tx, "Name", name) {
		return g, nil
	}
	return nil, apierror.ObjectNotFound.NotFound("UserGroupName", name)
}

// groupAt finds the group of a name and a path.
func groupAt(tx *resource.Tx, name string, path Path) (*UserGroup, error) {
	g, err := groupNamed(tx, name)
	if err == nil && g.Path != path.orRoot() {
		return nil, apierror.ObjectNotFound.NotFound("UserGroupName", name)
	}
	return g, err
}

// members are the users of the group, in order of creation.
func (g *UserGroup) members(tx *resource.Tx) []*User {
	return slices.Collect(Users.Of(tx, g.UserGroupId))
}

// CreateUserGroupRequest asks for a group of EIM users.
type CreateUserGroupRequest struct {
	Path          Path          // Where in the organization the group is, `/` by default.
	UserGroupName UserGroupName `api:"required"` // A name that no other group of the account has.
}

func createUserGroup(tx *resource.Tx, req *CreateUserGroupRequest) (*UserGroup, error) {
	if UserGroups.Count(tx) >= maxUserGroups {
		return nil, apierror.TooManyVms.Errorf("An account has at most %d user groups.", maxUserGroups)
	}
	now := api.At(tx.Now())
	return &UserGroup{CreationDate: now, LastModificationDate: now, Name: req.UserGroupName, Path: req.Path.orRoot()}, nil
}

// ReadUserGroupRequest asks for a group and its users.
type ReadUserGroupRequest struct {
	Path          Path   // The path of the group, `/` by default.
	UserGroupName string `api:"required"` // The name of the group.
}

// ReadUserGroupResponse shows a group and its users.
type ReadUserGroupResponse struct {
	UserGroup *UserGroup // The group.
	Users     []*User    // The users of the group.
}

func readUserGroup(tx *resource.Tx, req *ReadUserGroupRequest) (*ReadUserGroupResponse, error) {
	g, err := groupAt(tx, req.UserGroupName, req.Path)
	if err != nil {
		return nil, err
	}
	return &ReadUserGroupResponse{viewUserGroup(tx, g), g.members(tx)}, nil
}

// ReadUserGroupsRequest asks for the user groups of the account.
type ReadUserGroupsRequest struct {
	Filters *FiltersUserGroup // Which groups to list; all of them if absent.
	api.IndexPage
}

// FiltersUserGroup selects user groups.
type FiltersUserGroup struct {
	PathPrefix   string         // What the paths of the groups begin with, `/` by default.
	UserGroupIds []id.UserGroup // The IDs of the groups.
}

func (f *FiltersUserGroup) selects(g *UserGroup) bool {
	return f == nil || strings.HasPrefix(string(g.Path), f.PathPrefix) &&
		(len(f.UserGroupIds) == 0 || slices.Contains(f.UserGroupIds, g.UserGroupId))
}

// ReadUserGroupsResponse shows a page of user groups.
type ReadUserGroupsResponse struct {
	UserGroups []*UserGroup // The user groups.
	api.IndexedPage
}

func readUserGroups(tx *resource.Tx, req *ReadUserGroupsRequest) (*ReadUserGroupsResponse, error) {
	var resp ReadUserGroupsResponse
	for g := range UserGroups.All(tx) {
		if req.Filters.selects(g) {
			resp.UserGroups = append(resp.UserGroups, viewUserGroup(tx, g))
		}
	}
	resp.UserGroups, resp.IndexedPage = pageOf(resp.UserGroups, req.IndexPage)
	return &resp, nil
}

// UpdateUserGroupRequest asks to change a user group. What is not given stays.
type UpdateUserGroupRequest struct {
	NewPath          Path          // A new path.
	NewUserGroupName UserGroupName // A new name, which no other group of the account has.
	Path             Path          // The present path of the group, `/` by default.
	UserGroupName    string        `api:"required"` // The present name of the group.
}

// UpdateUserGroupResponse shows the group as it has become, and its users.
type UpdateUserGroupResponse struct {
	UserGroup *UserGroup // The group.
	Users     []*User    // The users of the group.
}

// updateUserGroup leaves a path that is not mentioned as it is. The real service is
// documented to set it to a slash, but its own clients give a new name alone and
// then read the group under its old path.
func updateUserGroup(tx *resource.Tx, req *UpdateUserGroupRequest) (*UpdateUserGroupResponse, error) {
	g, err := groupAt(tx, req.UserGroupName, req.Path)
	if err != nil {
		return nil, err
	}
	if req.NewPath != "" {
		g.Path = req.NewPath
	}
	if req.NewUserGroupName != "" {
		g.Name = req.NewUserGroupName
	}
	g.LastModificationDate = api.At(tx.Now())
	return &UpdateUserGroupResponse{viewUserGroup(tx, g), g.members(tx)}, UserGroups.Put(tx, g)
}

// DeleteUserGroupRequest asks to delete a user group that has no users and no
// policies, or whatever it has.
type DeleteUserGroupRequest struct {
	// Whether to delete the group even if it has users or policies. The users and the managed
	// policies stay, the inline policies are deleted with it.
	Force         bool
	Path          Path   // The path of the group, `/` by default.
	UserGroupName string `api:"required"` // The name of the group.
}

func deleteUserGroup(tx *resource.Tx, req *DeleteUserGroupRequest) error {
	g, err := groupAt(tx, req.UserGroupName, req.Path)
	if err != nil {
		return err
	}
	members := g.members(tx)
	if !req.Force {
		if len(members) > 0 {
			return apierror.InUse.Errorf("The user group %s has %d users, such as %s.", g.Name, len(members), members[0].UserName)
		}
		if held := g.Permissions.names(tx); len(held) > 0 {
			return apierror.InUse.Errorf("The user group %s has the policies %s.", g.Name, strings.Join(held, ", "))
		}
	}
	for _, u := range members {
		u.UserGroupIds = without(u.UserGroupIds, g.UserGroupId)
		if err := Users.Put(tx, u); err != nil {
			return err
		}
	}
	return UserGroups.Delete(tx, g)
}

// without is a list without a value. The list itself is shared with readers.
func without[T comparable](list []T, value T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(v T) bool { return v == value })
}
