package compute

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestVmTemplates(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	image := l.image(alice)
	l.call(alice, "CreateKeypair", object{"KeypairName": "key", "PublicKey": written(t)["ssh-ed25519.openssh"]})
	least := func(with object) object {
		request := object{"CpuCores": 2, "CpuGeneration": "v4", "ImageId": image, "Ram": 4, "VmTemplateName": "name"}
		for name, value := range with {
			request[name] = value
		}
		return request
	}
	made := l.one("VmTemplate", alice, "CreateVmTemplate", least(nil))
	if got, want := fmt.Sprintln(made["CpuCores"], made["CpuGeneration"], made["CpuPerformance"], made["CreationDate"], made["Description"],
		made["ImageId"], made["KeypairName"], made["Ram"], made["Tags"], made["VmTemplateName"]),
		fmt.Sprintln(2.0, "v4", "high", "2026-11-20T10:00:00.000Z", "", image, "", 4.0, "[]", "name"); got != want {
		t.Errorf("made is %s, want %s", got, want)
	}
	for name, test := range map[string]struct {
		with object
		code apierror.Code
	}{
		"all that can be said": {object{"CpuPerformance": "highest", "Description": "d", "KeypairName": "key",
			"Tags": []any{object{"Key": "b", "Value": "1"}, object{"Key": "a", "Value": ""}}}, 0},
		"no vCores":           {object{"CpuCores": 0}, apierror.InvalidValue},
		"too many vCores":     {object{"CpuCores": 131}, apierror.InvalidValue},
		"no memory":           {object{"Ram": 0}, apierror.InvalidValue},
		"too much memory":     {object{"Ram": 2301}, apierror.InvalidValue},
		"a bare generation":   {object{"CpuGeneration": "4"}, apierror.InvalidValue},
		"no generation":       {object{"CpuGeneration": "v0"}, apierror.InvalidValue},
		"one to come":         {object{"CpuGeneration": "v8"}, apierror.InvalidValue},
		"one with a zero":     {object{"CpuGeneration": "v04"}, apierror.InvalidValue},
		"no such performance": {object{"CpuPerformance": "low"}, apierror.InvalidValue},
		"no such image":       {object{"ImageId": "ami-00000000"}, apierror.ImageNotFound},
		"somebody's image":    {object{"ImageId": l.image(bob)}, apierror.ImageNotFound},
		"no such keypair":     {object{"KeypairName": "another"}, apierror.KeypairNotFound},
		"no name":             {object{"VmTemplateName": ""}, apierror.InvalidLength},
		"a long name":         {object{"VmTemplateName": strings.Repeat("n", 256)}, apierror.InvalidLength},
		"an empty tag":        {object{"Tags": []any{object{"Key": "", "Value": ""}}}, apierror.InvalidTagKey},
		"too many tags":       {object{"Tags": tooManyTags()}, apierror.TooManyTags},
	} {
		if _, err := l.try(alice, "CreateVmTemplate", least(test.with)); test.code == 0 && err != nil || test.code != 0 && !test.code.Is(err) {
			t.Errorf("%s: %v, want %s", name, err, test.code)
		}
	}
	for range maxVmTemplates - 2 {
		l.call(alice, "CreateVmTemplate", least(nil))
	}
	l.refused(apierror.TooManyVms, alice, "CreateVmTemplate", least(nil))
	l.refused(apierror.ObjectNotFound, bob, "DeleteVmTemplate", object{"VmTemplateId": made["VmTemplateId"]})
	l.call(alice, "DeleteVmTemplate", object{"VmTemplateId": made["VmTemplateId"]})
	l.refused(apierror.ObjectNotFound, alice, "DeleteVmTemplate", object{"VmTemplateId": made["VmTemplateId"]})
	l.call(alice, "CreateVmTemplate", least(nil))
}

func TestUpdateVmTemplate(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	tag := object{"Key": "a", "Value": "1"}
	template := l.one("VmTemplate", alice, "CreateVmTemplate", object{
		"CpuCores": 2, "CpuGeneration": "v4", "ImageId": l.image(alice), "Ram": 4, "VmTemplateName": "name", "Description": "text",
		"Tags": []any{tag, tag},
	})
	for _, test := range []struct {
		name   string
		change object
		want   string
	}{
		{"nothing", nil, "name text [map[Key:a Value:1]]"},
		{"the name", object{"VmTemplateName": "new"}, "new text [map[Key:a Value:1]]"},
		{"the description", object{"Description": "other"}, "new other [map[Key:a Value:1]]"},
		{"no description", object{"Description": ""}, "new  [map[Key:a Value:1]]"},
		{"the tags", object{"Tags": []any{object{"Key": "b", "Value": "2"}}}, "new  [map[Key:b Value:2]]"},
		{"no tags", object{"Tags": []any{}}, "new  []"},
	} {
		request := object{"VmTemplateId": template["VmTemplateId"]}
		for name, value := range test.change {
			request[name] = value
		}
		v := l.one("VmTemplate", alice, "UpdateVmTemplate", request)
		if got := fmt.Sprintf("%v %v %v", v["VmTemplateName"], v["Description"], v["Tags"]); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	l.refused(apierror.InvalidLength, alice, "UpdateVmTemplate", object{"VmTemplateId": template["VmTemplateId"], "VmTemplateName": ""})
	l.refused(apierror.ObjectNotFound, bob, "UpdateVmTemplate", object{"VmTemplateId": template["VmTemplateId"]})
}

func TestVmTemplateFilters(t *testing.T) {
	t.Parallel()
	l := newRuleRegion(t, twoSubregions, nil)
	l.call(alice, "CreateKeypair", object{"KeypairName": "key", "PublicKey": written(t)["ssh-ed25519.openssh"]})
	image, other := l.image(alice), l.image(alice)
	a := l.one("VmTemplate", alice, "CreateVmTemplate", object{
		"CpuCores": 2, "CpuGeneration": "v4", "ImageId": image, "Ram": 4, "VmTemplateName": "a", "KeypairName": "key", "Description": "first",
	})
	l.call(alice, "CreateVmTemplate", object{
		"CpuCores": 8, "CpuGeneration": "v5", "ImageId": other, "Ram": 16, "VmTemplateName": "b", "CpuPerformance": "medium",
		"Tags": []any{object{"Key": "env", "Value": "test"}},
	})
	for name, test := range map[string]struct {
		filters object
		want    []string
	}{
		"nothing":      {nil, []string{"a", "b"}},
		"vCores":       {object{"CpuCores": []any{8, 16}}, []string{"b"}},
		"generations":  {object{"CpuGenerations": []any{"v4"}}, []string{"a"}},
		"performances": {object{"CpuPerformances": []any{"high"}}, []string{"a"}},
		"descriptions": {object{"Descriptions": []any{"first"}}, []string{"a"}},
		"images":       {object{"ImageIds": []any{other}}, []string{"b"}},
		"keypairs":     {object{"KeypairNames": []any{"key"}}, []string{"a"}},
		"memory":       {object{"Rams": []any{16}}, []string{"b"}},
		"ids":          {object{"VmTemplateIds": []any{a["VmTemplateId"]}}, []string{"a"}},
		"names":        {object{"VmTemplateNames": []any{"b"}}, []string{"b"}},
		"tag keys":     {object{"TagKeys": []any{"env"}}, []string{"b"}},
		"tag values":   {object{"TagValues": []any{"live"}}, []string{}},
		"tags":         {object{"Tags": []any{"env=test"}}, []string{"b"}},
	} {
		if got := l.texts("VmTemplateName", "VmTemplates", alice, "ReadVmTemplates", test.filters); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func tooManyTags() (tags []any) {
	for i := range resource.MaxTags + 1 {
		tags = append(tags, object{"Key": fmt.Sprint(i), "Value": ""})
	}
	return tags
}
