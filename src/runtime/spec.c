/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The example config.json: a shell in a root file system named rootfs, with all namespaces. */
#include "runtime/runtime.h"

#include "base/json.h"

#define DEFAULT_CAPABILITIES "\"CAP_AUDIT_WRITE\",\"CAP_KILL\",\"CAP_NET_BIND_SERVICE\""

static const char example[] =
	"{\"ociVersion\":\"" RUNTIME_OCI_VERSION "\","
	"\"process\":{\"terminal\":true,\"user\":{\"uid\":0,\"gid\":0},\"args\":[\"sh\"],"
	"\"env\":[\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\","
	"\"TERM=xterm\"],\"cwd\":\"/\",\"capabilities\":{"
	"\"bounding\":[" DEFAULT_CAPABILITIES "],\"effective\":[" DEFAULT_CAPABILITIES "],"
	"\"permitted\":[" DEFAULT_CAPABILITIES "]},"
	"\"rlimits\":[{\"type\":\"RLIMIT_NOFILE\",\"hard\":1024,\"soft\":1024}],"
	"\"noNewPrivileges\":true},"
	"\"root\":{\"path\":\"rootfs\",\"readonly\":true},\"hostname\":\"moat\",\"mounts\":["
	"{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"},"
	"{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\","
	"\"options\":[\"nosuid\",\"strictatime\",\"mode=755\",\"size=65536k\"]},"
	"{\"destination\":\"/dev/pts\",\"type\":\"devpts\",\"source\":\"devpts\","
	"\"options\":[\"nosuid\",\"noexec\",\"newinstance\",\"ptmxmode=0666\",\"mode=0620\"%s]},"
	"{\"destination\":\"/dev/shm\",\"type\":\"tmpfs\",\"source\":\"shm\","
	"\"options\":[\"nosuid\",\"noexec\",\"nodev\",\"mode=1777\",\"size=65536k\"]},"
	"{\"destination\":\"/dev/mqueue\",\"type\":\"mqueue\",\"source\":\"mqueue\","
	"\"options\":[\"nosuid\",\"noexec\",\"nodev\"]},"
	"{\"destination\":\"/sys\",\"type\":\"%s\",\"source\":\"%s\","
	"\"options\":[%s\"nosuid\",\"noexec\",\"nodev\",\"ro\"]},"
	"{\"destination\":\"/sys/fs/cgroup\",\"type\":\"cgroup\",\"source\":\"cgroup\","
	"\"options\":[\"nosuid\",\"noexec\",\"nodev\",\"relatime\",\"ro\"]}],"
	"\"linux\":{\"resources\":{\"devices\":[{\"allow\":false,\"access\":\"rwm\"}]},"
	"%s\"namespaces\":[{\"type\":\"pid\"},%s{\"type\":\"ipc\"},"
	"{\"type\":\"uts\"},{\"type\":\"mount\"},{\"type\":\"cgroup\"}],"
	"\"maskedPaths\":[\"/proc/acpi\",\"/proc/asound\",\"/proc/kcore\",\"/proc/keys\","
	"\"/proc/latency_stats\",\"/proc/timer_list\",\"/proc/timer_stats\",\"/proc/sched_debug\","
	"\"/proc/scsi\",\"/sys/firmware\",\"/sys/devices/virtual/powercap\"],"
	"\"readonlyPaths\":[\"/proc/bus\",\"/proc/fs\",\"/proc/irq\",\"/proc/sys\","
	"\"/proc/sysrq-trigger\"]}}";

static char *fill_in(bool rootless)
{
	_cleanup_free_ char *mappings = NULL;

	if (!rootless)
		return xasprintf(example, ",\"gid=5\"", "sysfs", "sysfs", "", "",
				 "{\"type\":\"network\"},");
	mappings = xasprintf("\"uidMappings\":[{\"containerID\":0,\"hostID\":%u,\"size\":1}],"
			     "\"gidMappings\":[{\"containerID\":0,\"hostID\":%u,\"size\":1}],",
			     geteuid(), getegid());
	/* An ordinary user can mount sysfs only with a network namespace of its own. */
	return xasprintf(example, "", "none", "/sys", "\"rbind\",", mappings,
			 "{\"type\":\"user\"},");
}

char *spec_json(bool rootless)
{
	_cleanup_free_ char *text = fill_in(rootless);

	return json_indent(text);
}
