package iam

import (
	"slices"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// maxGroupsOfUser bounds the groups that a user is in.
const maxGroupsOfUser = 6

// AddUserToUserGroupRequest asks to add a user to a group. One that is in it stays
// in it.
type AddUserToUserGroupRequest struct {
	UserGroupName string `api:"required"` // The name of the group.
	UserGroupPath Path   // The path of the group, `/` by default.
	UserName      string `api:"required"` // The name of the user.
	UserPath      Path   // The path of the user, `/` by default.
}

func addUserToUserGroup(tx *resource.Tx, req *AddUserToUserGroupRequest) error {
	g, err := groupAt(tx, req.UserGroupName, req.UserGroupPath)
	if err != nil {
		return err
	}
	u, err := userAt(tx, req.UserName, req.UserPath)
	if err != nil || slices.Contains(u.UserGroupIds, g.UserGroupId) {
		return err
	}
	if len(u.UserGroupIds) >= maxGroupsOfUser {
		return apierror.TooManyVms.Errorf("The user %s is in %d groups, and can be in no more.", u.UserName, maxGroupsOfUser)
	}
	u.UserGroupIds = append(slices.Clone(u.UserGroupIds), g.UserGroupId)
	return Users.Put(tx, u)
}

// RemoveUserFromUserGroupRequest asks to remove a user from a group.
type RemoveUserFromUserGroupRequest struct {
	UserGroupName string `api:"required"` // The name of the group.
	UserGroupPath Path   // The path of the group, `/` by default.
	UserName      string `api:"required"` // The name of the user.
	UserPath      Path   // The path of the user, `/` by default.
}

func removeUserFromUserGroup(tx *resource.Tx, req *RemoveUserFromUserGroupRequest) error {
	g, err := groupAt(tx, req.UserGroupName, req.UserGroupPath)
	if err != nil {
		return err
	}
	u, err := userAt(tx, req.UserName, req.UserPath)
	if err != nil || !slices.Contains(u.UserGroupIds, g.UserGroupId) {
		return apierror.UserGroupMemberNotFound.NotFound("UserName", req.UserName)
	}
	u.UserGroupIds = without(u.UserGroupIds, g.UserGroupId)
	return Users.Put(tx, u)
}

// ReadUserGroupsPerUserRequest asks for the groups that a user is in.
type ReadUserGroupsPerUserRequest struct {
	UserName string `api:"required"` // The name of the user.
	UserPath Path   // The path of the user, `/` by default.
}

// ReadUserGroupsPerUserResponse shows the groups that a user is in.
type ReadUserGroupsPerUserResponse struct {
	UserGroups []*UserGroup // The user groups.
}

func readUserGroupsPerUser(tx *resource.Tx, req *ReadUserGroupsPerUserRequest) (*ReadUserGroupsPerUserResponse, error) {
	u, err := userAt(tx, req.UserName, req.UserPath)
	if err != nil {
		return nil, err
	}
	var resp ReadUserGroupsPerUserResponse
	for _, groupID := range u.UserGroupIds {
		g, err := UserGroups.Get(tx, groupID)
		if err != nil {
			return nil, err
		}
		resp.UserGroups = append(resp.UserGroups, viewUserGroup(tx, g))
	}
	return &resp, nil
}
