/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A whole machine into a file and out of it. The serial console has no place there: a machine with
 * one is not saved.
 */
#include "vmm/snapshot.h"

#include "base/fd.h"
#include "base/mem.h"
#include "vmm/machine.h"
#include "vmm/x86/x86.h"

#include <string.h>

static struct snapshot_wanted wanted_of(const struct vmm *vmm, const struct vmm_config *config)
{
	return (struct snapshot_wanted){ .key = config->template_key,
					 .key_size = config->template_key_size,
					 .vcpus = config->vcpus,
					 .devices = vmm->devices,
					 .memory = &vmm->memory,
					 .memory_size = config->memory_size };
}

static int save_state(const struct vmm *vmm, struct snapshot *snapshot, struct err *err)
{
	snapshot->header->identity = vmm->identity;
	for (unsigned int i = 0; i < vmm->vcpu_count; i++)
		if (x86_vcpu_save(vmm->kvm.kvm_fd, vmm->vcpus[i].fd, &snapshot->vcpus[i], err) < 0)
			return -1;
	for (unsigned int i = 0; i < vmm->devices; i++)
		if (mmio_save(&vmm->mmio[i], &snapshot->devices[i], err) < 0)
			return -1;
	return x86_chips_save(vmm->kvm.vm_fd, snapshot->chips, err);
}

/* The head comes last, and its first bytes after the rest: without them the file is none. */
static int write_head(const struct snapshot_header *header, int fd, struct err *err)
{
	const size_t first = sizeof(header->magic);

	if (lseek(fd, (off_t)first, SEEK_SET) < 0 ||
	    fd_write_full(fd, (const char *)header + first, header->head_size - first) < 0 ||
	    pwrite(fd, header, first, 0) != (ssize_t)first)
		return err_set(err, errno, "write the machine's state");
	return 0;
}

static int save(struct vmm *vmm, struct snapshot *snapshot, int fd, struct err *err)
{
	if (save_state(vmm, snapshot, err) < 0 ||
	    snapshot_write_pages(snapshot, &vmm->memory, fd, err) < 0)
		return -1;
	snapshot_seal(snapshot);
	return write_head(snapshot->header, fd, err);
}

/*
 * The kernel's code, which it patches while it boots and seldom later, its constants, and what is
 * padding between them.
 */
static uint32_t find_mapped(const struct vmm *vmm, const struct vmm_config *config,
			    struct snapshot_run mapped[3], uint32_t *prefaulted)
{
	struct snapshot_run text;
	uint32_t count = 0;

	x86_elf_text(config->kernel_fd, &text.gpa, &text.size);
	if (vmm->padding.size && vmm->padding.gpa - text.gpa < text.size)
		text.size = vmm->padding.gpa - text.gpa;
	if (text.size && guest_range(&vmm->memory, text.gpa, text.size))
		mapped[count++] = text;
	if (vmm->constants.size)
		mapped[count++] = vmm->constants;
	*prefaulted = count;
	if (vmm->padding.size)
		mapped[count++] = vmm->padding;
	return count;
}

int machine_save(struct vmm *vmm, const struct vmm_config *config, int fd, struct err *err)
{
	struct snapshot_wanted wanted = wanted_of(vmm, config);
	_cleanup_free_ struct snapshot_run *runs = NULL;
	struct snapshot_run mapped[3];
	uint32_t count, mapped_count, prefaulted;
	struct snapshot snapshot;
	int r;

	if (vmm->serial || wanted.key_size > SNAPSHOT_KEY_MAX)
		return err_set(err, 0, "save a machine with a console");
	mapped_count = find_mapped(vmm, config, mapped, &prefaulted);
	count = snapshot_find_pages(&vmm->memory, config->memory_fd, mapped, mapped_count, &runs,
				    err);
	if (!count)
		return -1;
	snapshot_new(&snapshot, &wanted, count);
	snapshot.header->mapped = mapped_count;
	snapshot.header->prefaulted = prefaulted;
	memcpy(snapshot.runs, runs, count * sizeof(*runs));
	r = save(vmm, &snapshot, fd, err);
	snapshot_release(&snapshot);
	return r;
}

static int restore_state(struct vmm *vmm, const struct snapshot *snapshot, struct err *err)
{
	if (snapshot->header->identity != vmm->identity)
		return err_set(err, 0, "its processor is another one");
	for (unsigned int i = 0; i < vmm->devices; i++)
		if (mmio_restore(&vmm->mmio[i], &snapshot->devices[i], err) < 0)
			return -1;
	for (unsigned int i = 0; i < vmm->vcpu_count; i++)
		if (x86_vcpu_restore(vmm->vcpus[i].fd, &snapshot->vcpus[i], err) < 0)
			return -1;
	if (x86_chips_restore(vmm->kvm.vm_fd, snapshot->chips, err) < 0)
		return -1;
	/* Last, for others hear of it. */
	for (unsigned int i = 0; i < vmm->devices; i++)
		if (mmio_reactivate(&vmm->mmio[i], err) < 0)
			return -1;
	vmm->again = true;
	return 0;
}

int machine_restore(struct vmm *vmm, const struct vmm_config *config, struct err *err)
{
	struct snapshot_wanted wanted = wanted_of(vmm, config);
	struct snapshot snapshot;
	int r = snapshot_read(&snapshot, config->template_fd, &wanted, err);

	/* Before anything of the state: KVM finds tables of the guest's there. */
	if (r == 0)
		r = snapshot_read_pages(&snapshot, &vmm->memory, config->template_fd, err);
	if (r == 0)
		r = vcpus_create(vmm, config->vcpus, 0, err);
	if (r == 0)
		r = restore_state(vmm, &snapshot, err);
	for (uint32_t i = 0; r == 0 && i < snapshot.header->prefaulted; i++)
		kvm_prefault(vmm->vcpus[0].fd, snapshot.runs[i].gpa, snapshot.runs[i].size);
	snapshot_release(&snapshot);
	return r < 0 ? err_wrap(err, "start from a template") : 0;
}
