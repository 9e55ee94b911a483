package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/outscale/osc-sdk-go/v3/pkg/middleware"
	"github.com/outscale/osc-sdk-go/v3/pkg/osc"
	"golang.org/x/crypto/ssh"
)

// TestHundredVms is the life of a hundred VMs with their volumes and snapshots,
// as the Go SDK leads it: made, used, killed with the region in the middle of it,
// used again, and deleted until the account is as empty as it was.
func TestHundredVms(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	start(t, data).stop(t)
	y := &yard{t: t, neighbour: addNeighbour(t, data), vms: map[string][]string{}}
	p := y.serve(data)
	y.prepare()
	y.createVms()
	y.createVolumes()
	y.snapshot()
	y.image()
	y.console(y.vms["web"][20])
	y.password(y.vms["windows"][0])
	y.quotas(map[string]int{
		"vm_limit": 100, "core_limit": 60 + 1 + 20 + 14 + 4 + 2, "memory_limit": 60 + 4 + 20*2 + 14*2 + 4 + 8, "ip_limit": 0,
		"volume_limit": 100 + 61 + 20 + 1, "volume_size_limit": 61*(20+10) + 50 + 38*10 + 20*4 + 8, "gp2_volume_size_limit": 61 * 20,
		"io1_volume_size_limit": 4, "iops_limit": 200, "snapshot_limit": 20 + 2, "concurrent_snapshot_limit": 0,
	})

	// The region loses its power just after it has promised to stop some VMs.
	stopped := y.vms["web"][:10]
	changed := do(t, y.c.StopVms, osc.StopVmsRequest{VmIds: stopped})
	if got := *(*changed.Vms)[0].CurrentState; len(*changed.Vms) != 10 || got != "stopping" {
		t.Errorf("the VMs that are to stop are %+v", *changed.Vms)
	}
	p.kill(t)
	p = y.serve(data)

	y.password(y.vms["windows"][0])
	y.untilVms(stopped, osc.VmStateStopped)
	y.update(stopped)
	y.power(stopped)
	y.gpu(y.vms["gpu"][0])
	y.share()
	t.Run("export", func(t *testing.T) { y.export(t, filepath.Join(data, "objects")) })
	y.deleteAll()
	y.isEmpty()
	p.stop(t)
}

// do makes a call that must succeed.
func do[Q, A any](t *testing.T, call func(context.Context, Q, ...middleware.MiddlewareChainOption) (A, error), req Q) A {
	t.Helper()
	resp, err := call(t.Context(), req)
	must(t, err)
	return resp
}

// yard is what an account has and how it is called.
type yard struct {
	t *testing.T
	c *osc.Client

	other     *osc.Client // another account's
	neighbour neighbour

	key                        *rsa.PrivateKey
	linux, windows             string // images
	net, subnet, group         string
	vms                        map[string][]string // by what they are for
	volumes, snapshots, images []string
}

// serve starts the region of a directory, and calls it from now on. The pace of
// a test is not what the throttle is for.
func (y *yard) serve(data string) *process {
	y.t.Helper()
	p := start(y.t, data, "--throttle", "off")
	y.c, y.other = sdk(y.t, p, p.root.AccessKey, p.root.SecretKey), sdk(y.t, p, y.neighbour.accessKey, y.neighbour.secretKey)
	return p
}

// prepare makes what the VMs are in and of.
func (y *yard) prepare() {
	y.t.Helper()
	made := do(y.t, y.c.CreateKeypair, osc.CreateKeypairRequest{KeypairName: "ops"})
	key, err := ssh.ParseRawPrivateKey([]byte(*made.Keypair.PrivateKey))
	must(y.t, err)
	y.key = key.(*rsa.PrivateKey)
	public, err := ssh.NewPublicKey(&y.key.PublicKey)
	must(y.t, err)
	if got := *made.Keypair.KeypairFingerprint; got != ssh.FingerprintLegacyMD5(public) {
		y.t.Errorf("the fingerprint is %s, want %s", got, ssh.FingerprintLegacyMD5(public))
	}
	y.linux, y.windows = y.publicImage("Debian-12-*"), y.publicImage("Windows-2022-*")

	y.net = do(y.t, y.c.CreateNet, osc.CreateNetRequest{IpRange: "10.0.0.0/16"}).Net.NetId
	y.subnet = do(y.t, y.c.CreateSubnet, osc.CreateSubnetRequest{NetId: y.net, IpRange: "10.0.0.0/24"}).Subnet.SubnetId
	until(y.t, func(ctx context.Context) (osc.SubnetState, error) {
		read, err := y.c.ReadSubnets(ctx, osc.ReadSubnetsRequest{Filters: &osc.FiltersSubnet{SubnetIds: &[]string{y.subnet}}})
		if err != nil {
			return "", err
		}
		return (*read.Subnets)[0].State, nil
	}, "available")
	y.group = do(y.t, y.c.CreateSecurityGroup, osc.CreateSecurityGroupRequest{SecurityGroupName: "web", Description: "the web",
		NetId: &y.net}).SecurityGroup.SecurityGroupId
	do(y.t, y.c.CreateSecurityGroupRule, osc.CreateSecurityGroupRuleRequest{
		Flow: "Inbound", SecurityGroupId: y.group, Rules: []osc.SecurityGroupRule{{IpProtocol: "tcp", FromPortRange: 443, ToPortRange: 443,
			IpRanges: []string{"0.0.0.0/0"}}},
	})
}

// publicImage finds the image of the region's own with a name.
func (y *yard) publicImage(name string) string {
	y.t.Helper()
	found := *do(y.t, y.c.ReadImages, osc.ReadImagesRequest{Filters: &osc.FiltersImage{
		AccountAliases: &[]string{"Outscale"}, ImageNames: &[]string{name}, PermissionsToLaunchGlobalPermission: new(true),
		States: &[]osc.ImageState{osc.ImageStateAvailable},
	}}).Images
	if len(found) != 1 {
		y.t.Fatalf("the public images %s are %+v, want one", name, found)
	}
	return found[0].ImageId
}

const userData = "#!/bin/sh\necho hello\n"

// createVms makes all VMs but the one that is made of another's image.
func (y *yard) createVms() {
	y.t.Helper()
	create := func(role string, count int, req osc.CreateVmsRequest) []osc.Vm {
		y.t.Helper()
		req.ImageId, req.KeypairName = cmp.Or(req.ImageId, y.linux), new("ops")
		made := *do(y.t, y.c.CreateVms, req).Vms
		for i, v := range made {
			y.vms[role] = append(y.vms[role], v.VmId)
			if v.State != osc.VmStatePending || v.LaunchNumber != i || v.ReservationId != made[0].ReservationId || len(v.BlockDeviceMappings) == 0 {
				y.t.Errorf("a new VM for %s is %+v", role, v)
			}
		}
		if len(made) != count {
			y.t.Fatalf("there are %d VMs for %s, want %d", len(made), role, count)
		}
		do(y.t, y.c.CreateTags, osc.CreateTagsRequest{ResourceIds: y.vms[role], Tags: []osc.ResourceTag{{Key: "role", Value: role}}})
		return made
	}
	// Before the others, who may be given any address.
	for i := range 4 {
		address := fmt.Sprintf("10.0.0.%d", 200+i)
		made := create("db", 1, osc.CreateVmsRequest{VmType: new("tinav6.c1r1"), Nics: []osc.NicForVmCreation{{
			DeviceNumber: new(0), SubnetId: &y.subnet, SecurityGroupIds: &[]string{y.group},
			PrivateIps: &[]osc.PrivateIpLight{{IsPrimary: true, PrivateIp: address}},
		}}})
		if made[0].PrivateIp != address || *made[0].NetId != y.net || made[0].Nics[0].LinkNic.DeviceNumber != 0 {
			y.t.Errorf("the VM with a NIC is %+v", made[0])
		}
	}
	web := osc.CreateVmsRequest{
		MinVmsCount: new(60), MaxVmsCount: new(60), VmType: new("tinav5.c1r1p2"), ClientToken: new("the web"),
		SubnetId: &y.subnet, SecurityGroupIds: []string{y.group}, UserData: new(base64.StdEncoding.EncodeToString([]byte(userData))),
		BlockDeviceMappings: []osc.BlockDeviceMappingVmCreation{
			{DeviceName: new("/dev/sda1"), Bsu: &osc.BsuToCreate{VolumeSize: new(20), VolumeType: new(osc.VolumeTypeGp2),
				DeleteOnVmDeletion: new(true)}},
			{DeviceName: new("/dev/sdb"), Bsu: &osc.BsuToCreate{VolumeSize: new(10), DeleteOnVmDeletion: new(true)}},
		},
	}
	made := create("web", 60, web)
	web.ImageId, web.KeypairName = y.linux, new("ops")
	if again := *do(y.t, y.c.CreateVms, web).Vms; len(again) != 60 || again[59].VmId != made[59].VmId {
		y.t.Errorf("the same call again made %d VMs", len(again))
	}
	create("cloud", 20, osc.CreateVmsRequest{MinVmsCount: new(1), MaxVmsCount: new(20)})
	create("batch", 14, osc.CreateVmsRequest{MinVmsCount: new(14), MaxVmsCount: new(14), SubnetId: &y.subnet, BootOnCreation: new(false)})
	create("windows", 1, osc.CreateVmsRequest{ImageId: y.windows, VmType: new("tinav5.c1r4p1"), DeletionProtection: new(true)})

	y.untilVms(y.vms["batch"], osc.VmStateStopped)
	for _, role := range []string{"web", "cloud", "db", "windows"} {
		y.untilVms(y.vms[role], osc.VmStateRunning)
	}
	one := (*do(y.t, y.c.ReadVms, osc.ReadVmsRequest{Filters: &osc.FiltersVm{VmIds: &[]string{y.vms["web"][0]}}}).Vms)[0]
	if *one.SubnetId != y.subnet || one.SecurityGroups[0].SecurityGroupId != y.group || *one.KeypairName != "ops" ||
		one.UserData != *web.UserData ||
		one.Performance != "high" || one.VmType != "tinav5.c1r1p2" || len(one.BlockDeviceMappings) != 2 || one.Tags[0].Value != "web" {
		y.t.Errorf("a VM in a Net is %+v", one)
	}
	one = (*do(y.t, y.c.ReadVms, osc.ReadVmsRequest{Filters: &osc.FiltersVm{VmIds: &[]string{y.vms["cloud"][0]}}}).Vms)[0]
	if one.PublicIp == nil || *one.PublicDnsName == "" || one.NetId != nil || one.VmType != "t2.small" ||
		one.SecurityGroups[0].SecurityGroupName != "default" {
		y.t.Errorf("a VM in the public Cloud is %+v", one)
	}
	// In pages, each is seen once.
	seen := map[string]bool{}
	page := osc.ReadVmsRequest{ResultsPerPage: new(30), Filters: &osc.FiltersVm{TagKeys: &[]string{"role"}}}
	for more := true; more; more = page.NextPageToken != nil && *page.NextPageToken != "" {
		read := do(y.t, y.c.ReadVms, page)
		for _, v := range *read.Vms {
			seen[v.VmId] = true
		}
		page.NextPageToken = read.NextPageToken
	}
	if len(seen) != 99 {
		y.t.Errorf("the pages have %d VMs, want 99", len(seen))
	}
}

// untilVms waits until VMs are in a state.
func (y *yard) untilVms(vms []string, want osc.VmState) {
	y.t.Helper()
	until(y.t, func(ctx context.Context) (osc.VmState, error) {
		read, err := y.c.ReadVms(ctx, osc.ReadVmsRequest{Filters: &osc.FiltersVm{VmIds: &vms, VmStateNames: &[]osc.VmState{want}}})
		if err != nil || len(*read.Vms) < len(vms) {
			return "", err
		}
		return want, nil
	}, want)
}

func (y *yard) readVolumes(ctx context.Context, filters osc.FiltersVolume) ([]osc.Volume, error) {
	read, err := y.c.ReadVolumes(ctx, osc.ReadVolumesRequest{ResultsPerPage: new(1000), Filters: &filters})
	if err != nil {
		return nil, err
	}
	return *read.Volumes, nil
}

// untilVolumes waits until as many volumes as the account has made are selected.
func (y *yard) untilVolumes(what osc.FiltersVolume) {
	y.t.Helper()
	what.VolumeIds = &y.volumes
	until(y.t, func(ctx context.Context) (string, error) {
		found, err := y.readVolumes(ctx, what)
		return fmt.Sprint(len(found)), err
	}, fmt.Sprint(len(y.volumes)))
}

// untilDeleted waits until no volume is being deleted.
func (y *yard) untilDeleted() {
	y.t.Helper()
	until(y.t, func(ctx context.Context) (string, error) {
		found, err := y.readVolumes(ctx, osc.FiltersVolume{VolumeStates: &[]osc.VolumeState{osc.VolumeStateDeleting}})
		return fmt.Sprint(len(found)), err
	}, "0")
}

// createVolumes gives twenty VMs a volume more, one of them a fast one.
func (y *yard) createVolumes() {
	y.t.Helper()
	for i := range 20 {
		req := osc.CreateVolumeRequest{SubregionName: "eu-west-2a", Size: new(4)}
		if i == 0 {
			req.VolumeType, req.Iops = new(osc.VolumeTypeIo1), new(200)
		}
		y.volumes = append(y.volumes, do(y.t, y.c.CreateVolume, req).Volume.VolumeId)
	}
	y.untilVolumes(osc.FiltersVolume{VolumeStates: &[]osc.VolumeState{osc.VolumeStateAvailable}})
	for i, volume := range y.volumes {
		do(y.t, y.c.LinkVolume, osc.LinkVolumeRequest{VmId: y.vms["web"][i], VolumeId: volume, DeviceName: "/dev/sdc"})
	}
	y.untilVolumes(osc.FiltersVolume{
		VolumeStates:         &[]osc.VolumeState{osc.VolumeStateInUse},
		LinkVolumeLinkStates: &[]osc.LinkedVolumeState{osc.LinkedVolumeStateAttached}, LinkVolumeDeviceNames: &[]string{"/dev/sdc"},
	})
	if _, err := y.c.DeleteVolume(y.t.Context(), osc.DeleteVolumeRequest{VolumeId: y.volumes[0]}); !osc.IsConflict(err) {
		y.t.Errorf("deleting a linked volume: %v, want a conflict", err)
	}
}

// snapshot takes one of each volume, and makes a larger volume of the first.
func (y *yard) snapshot() {
	y.t.Helper()
	for _, volume := range y.volumes {
		made := do(y.t, y.c.CreateSnapshot, osc.CreateSnapshotRequest{VolumeId: &volume, Description: new("nightly")}).Snapshot
		if made.VolumeId != volume || made.VolumeSize != 4 {
			y.t.Errorf("the snapshot of %s is %+v", volume, made)
		}
		y.snapshots = append(y.snapshots, made.SnapshotId)
	}
	until(y.t, func(ctx context.Context) (string, error) {
		read, err := y.c.ReadSnapshots(ctx, osc.ReadSnapshotsRequest{Filters: &osc.FiltersSnapshot{
			SnapshotIds: &y.snapshots, States: &[]osc.SnapshotState{osc.SnapshotStateCompleted}, Progresses: &[]int{100},
		}})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(len(*read.Snapshots)), nil
	}, "20")
	made := do(y.t, y.c.CreateVolume, osc.CreateVolumeRequest{SubregionName: "eu-west-2a", SnapshotId: &y.snapshots[0], Size: new(8)}).Volume
	if *made.SnapshotId != y.snapshots[0] || made.Size != 8 {
		y.t.Errorf("the volume of a snapshot is %+v", made)
	}
	y.volumes = append(y.volumes, made.VolumeId)
	until(y.t, func(ctx context.Context) (osc.VolumeState, error) {
		found, err := y.readVolumes(ctx, osc.FiltersVolume{VolumeIds: &[]string{made.VolumeId}})
		if err != nil {
			return "", err
		}
		return found[0].State, nil
	}, osc.VolumeStateAvailable)
}

// image makes an image of a VM, and of it the hundredth VM.
func (y *yard) image() {
	y.t.Helper()
	made := do(y.t, y.c.CreateImage, osc.CreateImageRequest{VmId: &y.vms["web"][30], ImageName: new("golden"), NoReboot: new(true)}).Image
	y.images = append(y.images, made.ImageId)
	until(y.t, func(ctx context.Context) (osc.ImageState, error) {
		read, err := y.c.ReadImages(ctx, osc.ReadImagesRequest{Filters: &osc.FiltersImage{ImageIds: &y.images}})
		if err != nil {
			return "", err
		}
		return (*read.Images)[0].State, nil
	}, osc.ImageStateAvailable)
	image := (*do(y.t, y.c.ReadImages, osc.ReadImagesRequest{Filters: &osc.FiltersImage{ImageNames: &[]string{"golden"}}}).Images)[0]
	for _, m := range *image.BlockDeviceMappings {
		y.snapshots = append(y.snapshots, *m.Bsu.SnapshotId)
	}
	if len(y.snapshots) != 22 {
		y.t.Errorf("the image is %+v, want the root volume and one more", image)
	}
	of := do(y.t, y.c.CreateVms, osc.CreateVmsRequest{ImageId: made.ImageId, SubnetId: &y.subnet, VmType: new("tinav5.c2r8p1")})
	y.vms["gpu"] = []string{(*of.Vms)[0].VmId}
	y.untilVms(y.vms["gpu"], osc.VmStateRunning)
	disks, err := y.readVolumes(y.t.Context(), osc.FiltersVolume{LinkVolumeVmIds: new(y.vms["gpu"])})
	must(y.t, err)
	if len(disks) != 2 || disks[0].Size != 20 || disks[0].VolumeType != osc.VolumeTypeGp2 || *disks[0].SnapshotId != y.snapshots[20] {
		y.t.Errorf("the volumes of a VM of the image are %+v", disks)
	}
}

// quotas checks what the account uses of some of them.
func (y *yard) quotas(want map[string]int) {
	y.t.Helper()
	names, got := slices.Collect(maps.Keys(want)), map[string]int{}
	for _, group := range *do(y.t, y.c.ReadQuotas,
		osc.ReadQuotasRequest{Filters: &osc.FiltersQuota{QuotaNames: &names, QuotaTypes: &[]string{"global"}}}).QuotaTypes {
		for _, q := range *group.Quotas {
			got[*q.Name] = *q.UsedValue
		}
	}
	if !maps.Equal(got, want) {
		y.t.Errorf("of the quotas are used %v,\nwant %v", got, want)
	}
}

// update changes what stopped VMs are, and what running ones may be changed in.
func (y *yard) update(stopped []string) {
	y.t.Helper()
	for _, vm := range stopped {
		changed := do(y.t, y.c.UpdateVm, osc.UpdateVmRequest{VmId: vm, VmType: new("tinav5.c2r4"),
			Performance: new(osc.UpdateVmRequestPerformanceHighest), UserData: new("aGk=")}).Vm
		if changed.VmType != "tinav5.c2r4" || changed.Performance != "highest" || changed.UserData != "aGk=" {
			y.t.Errorf("the VM with another type is %+v", changed)
		}
	}
	running := y.vms["web"][20]
	if _, err := y.c.UpdateVm(y.t.Context(), osc.UpdateVmRequest{VmId: running, VmType: new("tinav5.c2r4")}); !osc.IsConflict(err) {
		y.t.Errorf("another type for a running VM: %v, want a conflict", err)
	}
	vms := *do(y.t, y.c.ReadVms, osc.ReadVmsRequest{Filters: &osc.FiltersVm{VmIds: &[]string{running}}}).Vms
	root := vms[0].BlockDeviceMappings[1].Bsu.VolumeId
	do(y.t, y.c.UpdateVm, osc.UpdateVmRequest{VmId: running, BlockDeviceMappings: []osc.BlockDeviceMappingVmUpdate{
		{DeviceName: new("/dev/sdb"), Bsu: &osc.BsuToUpdateVm{VolumeId: root, DeleteOnVmDeletion: false}},
	}})
	y.volumes = append(y.volumes, root) // it outlives its VM

	// A volume grows while a VM has it.
	task := do(y.t, y.c.UpdateVolume, osc.UpdateVolumeRequest{VolumeId: y.volumes[10], Size: new(12)}).Volume.TaskId
	until(y.t, func(ctx context.Context) (string, error) {
		read, err := y.c.ReadVolumeUpdateTasks(ctx,
			osc.ReadVolumeUpdateTasksRequest{Filters: &osc.FiltersReadVolumeUpdateTask{TaskIds: &[]string{*task}}})
		if err != nil {
			return "", err
		}
		return *(*read.VolumeUpdateTasks)[0].State, nil
	}, "completed")
	grown, err := y.readVolumes(y.t.Context(), osc.FiltersVolume{VolumeIds: &[]string{y.volumes[10]}})
	must(y.t, err)
	if grown[0].Size != 12 {
		y.t.Errorf("the volume that grew is %+v", grown[0])
	}
}

// power starts what is stopped, and stops and starts others.
func (y *yard) power(stopped []string) {
	y.t.Helper()
	do(y.t, y.c.StartVms, osc.StartVmsRequest{VmIds: append(slices.Clone(stopped), y.vms["batch"]...)})
	y.untilVms(stopped, osc.VmStateRunning)
	y.untilVms(y.vms["batch"], osc.VmStateRunning)
	forced := y.vms["cloud"][:10]
	do(y.t, y.c.StopVms, osc.StopVmsRequest{VmIds: forced, ForceStop: new(true)})
	y.untilVms(forced, osc.VmStateStopped)
	running := *do(y.t, y.c.ReadVmsState, osc.ReadVmsStateRequest{}).VmStates
	off := *do(y.t, y.c.ReadVmsState, osc.ReadVmsStateRequest{AllVms: new(true),
		Filters: &osc.FiltersVmsState{VmStates: &[]osc.VmState{osc.VmStateStopped}}}).VmStates
	if len(running) != 90 || len(off) != 10 {
		y.t.Errorf("%d VMs are running and %d are stopped, want 90 and 10", len(running), len(off))
	}
	history := *do(y.t, y.c.ReadVmsStopHistory, osc.ReadVmsStopHistoryRequest{Filters: &osc.FiltersVmsStopHistory{VmIds: new(
		append(slices.Clone(stopped), forced...))}}).VmsStopHistory
	if len(history) != 20 {
		y.t.Errorf("the history has %d VMs that were stopped, want 20", len(history))
	}
	do(y.t, y.c.StartVms, osc.StartVmsRequest{VmIds: forced})
	y.untilVms(forced, osc.VmStateRunning)
}

// console reads what a VM says when it boots once more.
func (y *yard) console(vm string) {
	y.t.Helper()
	boots := func(ctx context.Context) (string, error) {
		read, err := y.c.ReadConsoleOutput(ctx, osc.ReadConsoleOutputRequest{VmId: vm})
		if err != nil {
			return "", err
		}
		text, err := base64.StdEncoding.DecodeString(*read.ConsoleOutput)
		return fmt.Sprint(strings.Count(string(text), " boots ")), err
	}
	until(y.t, boots, "1")
	do(y.t, y.c.RebootVms, osc.RebootVmsRequest{VmIds: []string{vm}})
	until(y.t, boots, "2")
	y.untilVms([]string{vm}, osc.VmStateRunning)
}

// password opens the password of the administrator of a Windows.
func (y *yard) password(vm string) {
	y.t.Helper()
	var sealed string
	until(y.t, func(ctx context.Context) (string, error) {
		read, err := y.c.ReadAdminPassword(ctx, osc.ReadAdminPasswordRequest{VmId: vm})
		if err != nil || *read.AdminPassword == "" {
			return "none yet", err
		}
		sealed = *read.AdminPassword
		return "there", nil
	}, "there")
	text, err := base64.StdEncoding.DecodeString(sealed)
	must(y.t, err)
	password, err := rsa.DecryptPKCS1v15(nil, y.key, text)
	must(y.t, err)
	if len(password) < 12 {
		y.t.Errorf("the password is %q", password)
	}
}

// gpu gives a VM a flexible GPU, which goes when it goes.
func (y *yard) gpu(vm string) {
	y.t.Helper()
	gpu := do(y.t, y.c.CreateFlexibleGpu, osc.CreateFlexibleGpuRequest{ModelName: "nvidia-p6", Generation: new("v5"),
		SubregionName: "eu-west-2a", DeleteOnVmDeletion: new(true)}).FlexibleGpu.FlexibleGpuId
	do(y.t, y.c.LinkFlexibleGpu, osc.LinkFlexibleGpuRequest{FlexibleGpuId: gpu, VmId: vm})
	state := func(ctx context.Context) (osc.FlexibleGpuState, error) {
		read, err := y.c.ReadFlexibleGpus(ctx, osc.ReadFlexibleGpusRequest{Filters: &osc.FiltersFlexibleGpu{VmIds: &[]string{vm}}})
		if err != nil {
			return "", err
		}
		return (*read.FlexibleGpus)[0].State, nil
	}
	until(y.t, state, osc.FlexibleGpuStateAttaching)
	do(y.t, y.c.StopVms, osc.StopVmsRequest{VmIds: []string{vm}})
	y.untilVms([]string{vm}, osc.VmStateStopped)
	do(y.t, y.c.StartVms, osc.StartVmsRequest{VmIds: []string{vm}})
	until(y.t, state, osc.FlexibleGpuStateAttached)
	y.quotas(map[string]int{"gpu_limit": 1})
}

// share gives another account a snapshot to make a volume of, and an image, and
// takes both back.
func (y *yard) share() {
	y.t.Helper()
	ctx := y.t.Context()
	snapshot, image := y.snapshots[0], y.images[0]
	make := osc.CreateVolumeRequest{SubregionName: "eu-west-2a", SnapshotId: &snapshot}
	if _, err := y.other.CreateVolume(ctx, make); !osc.IsNotFound(err) {
		y.t.Errorf("a volume of another's snapshot: %v, want what the SDK takes for not found", err)
	}
	sees := func(want int) {
		y.t.Helper()
		snapshots := *do(y.t, y.other.ReadSnapshots, osc.ReadSnapshotsRequest{Filters: &osc.FiltersSnapshot{SnapshotIds: &y.snapshots}}).Snapshots
		images := *do(y.t, y.other.ReadImages, osc.ReadImagesRequest{Filters: &osc.FiltersImage{ImageIds: &y.images}}).Images
		if len(snapshots) != want || len(images) != want {
			y.t.Errorf("the other account sees the snapshots %+v and the images %+v, want %d of each", snapshots, images, want)
		}
	}
	with := &osc.PermissionsOnResource{AccountIds: &[]string{y.neighbour.account}}
	sees(0)
	shared := do(y.t, y.c.UpdateSnapshot, osc.UpdateSnapshotRequest{SnapshotId: snapshot,
		PermissionsToCreateVolume: osc.PermissionsOnResourceCreation{Additions: with}}).Snapshot
	if got := *shared.PermissionsToCreateVolume.AccountIds; !slices.Equal(got, []string{y.neighbour.account}) {
		y.t.Errorf("the snapshot is shared with %v", got)
	}
	do(y.t, y.c.UpdateImage, osc.UpdateImageRequest{ImageId: image, PermissionsToLaunch: &osc.PermissionsOnResourceCreation{Additions: with}})
	sees(1)
	volume := do(y.t, y.other.CreateVolume, make).Volume
	if *volume.SnapshotId != snapshot || volume.Size != 4 {
		y.t.Errorf("the volume of the shared snapshot is %+v", volume)
	}
	until(y.t, func(ctx context.Context) (osc.VolumeState, error) {
		read, err := y.other.ReadVolumes(ctx, osc.ReadVolumesRequest{Filters: &osc.FiltersVolume{VolumeIds: &[]string{volume.VolumeId}}})
		if err != nil {
			return "", err
		}
		return (*read.Volumes)[0].State, nil
	}, osc.VolumeStateAvailable)
	do(y.t, y.c.UpdateSnapshot, osc.UpdateSnapshotRequest{SnapshotId: snapshot,
		PermissionsToCreateVolume: osc.PermissionsOnResourceCreation{Removals: with}})
	do(y.t, y.c.UpdateImage, osc.UpdateImageRequest{ImageId: image, PermissionsToLaunch: &osc.PermissionsOnResourceCreation{Removals: with}})
	sees(0)
}

// export writes a snapshot to the region's directory of objects.
func (y *yard) export(t *testing.T, objects string) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("qemu-img is not installed: apt-get install qemu-utils")
	}
	task := do(t, y.c.CreateSnapshotExportTask, osc.CreateSnapshotExportTaskRequest{
		SnapshotId: y.snapshots[0], OsuExport: osc.OsuExportToCreate{DiskImageFormat: "qcow2", OsuBucket: "exports", OsuPrefix: new("nightly/")},
	}).SnapshotExportTask.TaskId
	until(t, func(ctx context.Context) (osc.SnapshotExportTaskState, error) {
		read, err := y.c.ReadSnapshotExportTasks(ctx,
			osc.ReadSnapshotExportTasksRequest{Filters: &osc.FiltersSnapshotExportTask{TaskIds: &[]string{task}}})
		if err != nil {
			return "", err
		}
		if got := (*read.SnapshotExportTasks)[0]; got.State == osc.SnapshotExportTaskStateFailed {
			return "", fmt.Errorf("the export has failed: %s", got.Comment)
		}
		return (*read.SnapshotExportTasks)[0].State, nil
	}, osc.SnapshotExportTaskStateCompleted)
	var found []string
	must(t, fs.WalkDir(os.DirFS(objects), ".", func(path string, e fs.DirEntry, err error) error {
		if strings.HasSuffix(path, "nightly/"+task+".qcow2") && strings.HasPrefix(readFile(t, objects, path), "QFI\xfb") {
			found = append(found, path)
		}
		return err
	}))
	if len(found) != 1 {
		t.Errorf("the files of the export in %s are %v", objects, found)
	}
}

// deleteAll deletes all VMs, then all that was made with them.
func (y *yard) deleteAll() {
	y.t.Helper()
	all := slices.Concat(slices.Collect(maps.Values(y.vms))...)
	windows := y.vms["windows"][0]
	if _, err := y.c.DeleteVms(y.t.Context(), osc.DeleteVmsRequest{VmIds: []string{windows}}); err == nil {
		y.t.Error("a VM was deleted that is protected from it")
	}
	do(y.t, y.c.UpdateVm, osc.UpdateVmRequest{VmId: windows, DeletionProtection: new(false)})
	do(y.t, y.c.StopVms, osc.StopVmsRequest{VmIds: all, ForceStop: new(true)})
	if changed := *do(y.t, y.c.DeleteVms, osc.DeleteVmsRequest{VmIds: all}).Vms; len(changed) != 100 ||
		*changed[0].CurrentState != "shutting-down" {
		y.t.Errorf("the VMs that are to be deleted are %+v", changed)
	}
	y.untilVms(all, osc.VmStateTerminated)

	// What outlives the VMs is free again.
	y.untilDeleted()
	y.untilVolumes(osc.FiltersVolume{VolumeStates: &[]osc.VolumeState{osc.VolumeStateAvailable}})
	left, err := y.readVolumes(y.t.Context(), osc.FiltersVolume{})
	must(y.t, err)
	for _, v := range left {
		if !slices.Contains(y.volumes, v.VolumeId) {
			y.t.Errorf("the volume outlives its VM: %+v", v)
		}
		do(y.t, y.c.DeleteVolume, osc.DeleteVolumeRequest{VolumeId: v.VolumeId})
	}
	if _, err := y.c.DeleteSnapshot(y.t.Context(), osc.DeleteSnapshotRequest{SnapshotId: y.snapshots[20]}); !osc.IsConflict(err) {
		y.t.Errorf("deleting a snapshot of an image: %v, want a conflict", err)
	}
	for _, image := range y.images {
		do(y.t, y.c.DeleteImage, osc.DeleteImageRequest{ImageId: image})
	}
	for _, snapshot := range y.snapshots {
		do(y.t, y.c.DeleteSnapshot, osc.DeleteSnapshotRequest{SnapshotId: snapshot})
	}
	do(y.t, y.c.DeleteKeypair, osc.DeleteKeypairRequest{KeypairName: new("ops")})
	// The group stays in use for a while after its last VM.
	until(y.t, func(ctx context.Context) (string, error) {
		_, err := y.c.DeleteSecurityGroup(ctx, osc.DeleteSecurityGroupRequest{SecurityGroupId: &y.group})
		if osc.IsConflict(err) {
			return "in use", nil
		}
		return "deleted", err
	}, "deleted")
	do(y.t, y.c.DeleteSubnet, osc.DeleteSubnetRequest{SubnetId: y.subnet})
	do(y.t, y.c.DeleteNet, osc.DeleteNetRequest{NetId: y.net})
	y.untilDeleted()
}

// isEmpty checks that nothing is left but VMs that are shown as gone.
func (y *yard) isEmpty() {
	y.t.Helper()
	vms := *do(y.t, y.c.ReadVms, osc.ReadVmsRequest{ResultsPerPage: new(1000)}).Vms
	for _, v := range vms {
		if v.State != osc.VmStateTerminated || len(v.Nics) > 0 || len(v.BlockDeviceMappings) > 0 {
			y.t.Errorf("a VM that is gone is %+v", v)
		}
	}
	volumes, err := y.readVolumes(y.t.Context(), osc.FiltersVolume{})
	must(y.t, err)
	mine := &[]string{*(*do(y.t, y.c.ReadAccounts, osc.ReadAccountsRequest{}).Accounts)[0].AccountId}
	for what, got := range map[string]int{
		"VMs":             len(vms) - 100,
		"volumes":         len(volumes),
		"snapshots":       len(*do(y.t, y.c.ReadSnapshots, osc.ReadSnapshotsRequest{}).Snapshots),
		"images":          len(*do(y.t, y.c.ReadImages, osc.ReadImagesRequest{Filters: &osc.FiltersImage{AccountIds: mine}}).Images),
		"keypairs":        len(*do(y.t, y.c.ReadKeypairs, osc.ReadKeypairsRequest{}).Keypairs),
		"flexible GPUs":   len(*do(y.t, y.c.ReadFlexibleGpus, osc.ReadFlexibleGpusRequest{}).FlexibleGpus),
		"NICs":            len(*do(y.t, y.c.ReadNics, osc.ReadNicsRequest{}).Nics),
		"public IPs":      len(*do(y.t, y.c.ReadPublicIps, osc.ReadPublicIpsRequest{}).PublicIps),
		"security groups": len(*do(y.t, y.c.ReadSecurityGroups, osc.ReadSecurityGroupsRequest{}).SecurityGroups) - 1,
		"Nets":            len(*do(y.t, y.c.ReadNets, osc.ReadNetsRequest{Filters: &osc.FiltersNet{States: &[]osc.NetState{"available"}}}).Nets),
		"tags": len(*do(y.t, y.c.ReadTags,
			osc.ReadTagsRequest{Filters: &osc.FiltersTag{ResourceTypes: &[]string{"volume", "snapshot", "image"}}}).Tags),
	} {
		if got != 0 {
			y.t.Errorf("%d %s are left", got, what)
		}
	}
	used := map[string]int{}
	for _, name := range []string{
		"vm_limit", "core_limit", "memory_limit", "gpu_limit", "ip_limit", "volume_limit", "volume_size_limit", "gp2_volume_size_limit",
		"io1_volume_size_limit", "standard_volume_size_limit", "iops_limit", "snapshot_limit", "snapshot_export_limit", "vpc_limit",
	} {
		used[name] = 0
	}
	y.quotas(used)
}

// neighbour is another account of a region.
type neighbour struct{ account, accessKey, secretKey string }

// addNeighbour moves the account of another region into the stopped one of a
// directory: until accounts can be created, an operator has no other way.
func addNeighbour(t *testing.T, data string) neighbour {
	t.Helper()
	dir := t.TempDir()
	elsewhere := start(t, filepath.Join(dir, "elsewhere"))
	root := neighbour{elsewhere.root.AccountID, elsewhere.root.AccessKey, elsewhere.root.SecretKey}
	elsewhere.stop(t)
	export := func(data string) (header string, accounts map[string][]string) {
		text, _ := told(t, "export", "--with-secrets", "--data", data)
		lines := strings.Split(strings.TrimSpace(text), "\n")
		accounts = map[string][]string{}
		var of string
		for _, line := range lines[1 : len(lines)-1] {
			var is struct{ Account string }
			must(t, json.Unmarshal([]byte(line), &is))
			of = cmp.Or(is.Account, of)
			accounts[of] = append(accounts[of], line)
		}
		return lines[0], accounts
	}
	header, here := export(data)
	_, there := export(elsewhere.data)
	for name, lines := range there {
		text := strings.Join(lines, "\n")
		if name != root.account && !strings.Contains(text, `"key/`+root.accessKey) && !strings.Contains(text, `"kind":"Resident"`) {
			continue
		}
		if here[name] != nil {
			return addNeighbour(t, data) // both have an entry in one of the accounts of the region's own
		}
		here[name] = lines
	}
	var both bytes.Buffer
	fmt.Fprintln(&both, header)
	rows := 0
	for _, name := range slices.Sorted(maps.Keys(here)) {
		fmt.Fprintln(&both, strings.Join(here[name], "\n"))
		rows += len(here[name]) - 1
	}
	fmt.Fprintf(&both, `{"end":{"accounts":%d,"rows":%d}}`+"\n", len(here), rows)
	file := filepath.Join(dir, "both")
	must(t, os.WriteFile(file, both.Bytes(), 0o600))
	told(t, "import", "--force", "--data", data, file)
	return root
}
