/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's agent on a host. */
#include "agent_host.h"

#include "loop_alarm.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "guest/agent.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define BUSYBOX	   "/bin/busybox"
#define TIMEOUT_S  20
#define OUTPUT_MAX (4u << 20)

static int agent_ends[HOST_PORTS];
static char trees[64];

static _Noreturn void die(const char *what)
{
	perror(what);
	_exit(99);
}

static void copy(const char *from, const char *to)
{
	_cleanup_fd_ int in = open(from, O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	ssize_t n = 1;

	while (n > 0 && in >= 0 && out >= 0)
		n = sendfile(out, in, NULL, 1 << 20);
	if (in < 0 || out < 0 || n < 0)
		die("copy " BUSYBOX);
}

const char *host_missing(void)
{
	if (geteuid() != 0)
		return "the agent needs root to make containers";
	if (access(BUSYBOX, X_OK) < 0)
		return "no " BUSYBOX " (package busybox-static)";
	return NULL;
}

struct host *host_of(void **state)
{
	if (host_missing()) {
		print_message("%s\n", host_missing());
		skip();
	}
	return *state;
}

static int connect_port(uint32_t port, struct err *err)
{
	if (port < HOST_PORT_FIRST || port >= HOST_PORT_FIRST + HOST_PORTS)
		return err_set(err, ECONNREFUSED, "connect to port %u of the host", port);
	return fd_steal(&agent_ends[port - HOST_PORT_FIRST]);
}

static int connected(int fd, uint32_t port, struct err *err)
{
	return 0;
}

static void ignore_greeting(int64_t realtime_ns, const void *entropy, size_t size,
			    const char *hostname)
{
}

static void settle(void)
{
}

static _Noreturn void agent_main(int control)
{
	static const struct machine machine = {
		.trees = trees,
		.connect = connect_port,
		.connected = connected,
		.greet = ignore_greeting,
		.settle = settle,
	};
	struct agent agent;
	struct err err;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0)
		die("mount /proc");
	if (agent_init(&agent, &machine, &err) < 0)
		die(err.text);
	agent.use_cgroups = false;
	if (agent_serve(&agent, control, &err) < 0 || loop_run(&agent.loop, &err) < 0)
		die(err.text);
	agent_close(&agent);
	_exit(0);
}

static void make_root(struct host *host)
{
	static const char *const directories[] = { "bin", "dev", "proc", "sys", "tmp" };
	static const char *const applets[] = { "cat", "echo", "sh",  "sleep", "stty",
					       "tr",  "true", "tty", "yes" };
	char path[256];

	snprintf(host->directory, sizeof(host->directory), "/tmp/moat-agent-XXXXXX");
	if (!mkdtemp(host->directory))
		die("mkdtemp");
	snprintf(path, sizeof(path), "%s/0", host->directory);
	mkdir(path, 0755);
	for (size_t i = 0; i < ARRAY_LEN(directories); i++) {
		snprintf(path, sizeof(path), "%s/0/%s", host->directory, directories[i]);
		mkdir(path, 0755);
	}
	for (size_t i = 0; i < ARRAY_LEN(applets); i++) {
		snprintf(path, sizeof(path), "%s/0/bin/%s", host->directory, applets[i]);
		if (symlink("busybox", path) < 0)
			die("symlink");
	}
	snprintf(path, sizeof(path), "%s/0/bin/busybox", host->directory);
	copy(BUSYBOX, path);
}

void host_start(struct host *host)
{
	int pair[2];
	struct err err;

	*host = (struct host){ .pid = -1 };
	make_root(host);
	snprintf(trees, sizeof(trees), "%s", host->directory);
	if (loop_init(&host->loop, &err) < 0 || fd_socketpair(SOCK_STREAM, pair) < 0)
		die("make a loop");
	for (int i = 0; i < HOST_PORTS; i++) {
		int ends[2];

		if (fd_socketpair(SOCK_STREAM, ends) < 0)
			die("make a socket pair");
		host->streams[i] = ends[0];
		agent_ends[i] = ends[1];
	}
	host->pid = fork();
	if (host->pid == 0) {
		close(pair[0]);
		for (int i = 0; i < HOST_PORTS; i++)
			close(host->streams[i]);
		/* Nothing may be left where a test dies: the namespace ends with this process. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
			die("unshare");
		host->pid = fork();
		if (host->pid == 0)
			agent_main(pair[1]);
		close(pair[1]);
		for (int i = 0; i < HOST_PORTS; i++)
			close(agent_ends[i]);
		waitpid(host->pid, &pair[0], 0);
		_exit(WIFEXITED(pair[0]) ? WEXITSTATUS(pair[0]) : 128 + WTERMSIG(pair[0]));
	}
	close(pair[1]);
	for (int i = 0; i < HOST_PORTS; i++)
		close(agent_ends[i]);
	host->client = ttrpc_new(&host->loop, pair[0], NULL, NULL, host, &err);
}

int host_stop(struct host *host)
{
	int status = 0;

	ttrpc_free(host->client);
	for (int i = 0; i < HOST_PORTS; i++)
		fd_replace(&host->streams[i], -1);
	waitpid(host->pid, &status, 0);
	loop_close(&host->loop);
	path_remove_tree(AT_FDCWD, host->directory, NULL);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void on_answer(void *data, const ProtobufCMessage *response, uint32_t code, const char *text)
{
	struct reply *reply = data;

	reply->count++;
	reply->code = code;
	snprintf(reply->text, sizeof(reply->text), "%s", text);
	if (response && response->descriptor == &moat__agent__wait_response__descriptor)
		reply->number = ((const Moat__Agent__WaitResponse *)response)->status;
	if (response && response->descriptor == &moat__agent__create_container_response__descriptor)
		reply->number = ((const Moat__Agent__CreateContainerResponse *)response)->pid;
	if (response && response->descriptor == &moat__agent__exec_response__descriptor)
		reply->number = ((const Moat__Agent__ExecResponse *)response)->pid;
	loop_quit(&reply->host->loop);
}

static const ProtobufCMessageDescriptor *response_of(const char *method)
{
	if (!strcmp(method, "Wait"))
		return &moat__agent__wait_response__descriptor;
	if (!strcmp(method, "CreateContainer"))
		return &moat__agent__create_container_response__descriptor;
	if (!strcmp(method, "Exec"))
		return &moat__agent__exec_response__descriptor;
	if (!strcmp(method, "Hello"))
		return &moat__agent__hello_response__descriptor;
	return &moat__agent__empty__descriptor;
}

void host_begin(struct host *host, const char *method, const ProtobufCMessage *request,
		struct reply *reply)
{
	struct err err;

	*reply = (struct reply){ .host = host, .code = UINT32_MAX };
	if (ttrpc_call(host->client, "moat.agent.Agent", method, request, response_of(method),
		       TIMEOUT_S * 1000, on_answer, reply, &err) < 0)
		die(err.text);
}

uint32_t host_call(struct host *host, const char *method, const ProtobufCMessage *request,
		   struct reply *reply)
{
	host_begin(host, method, request, reply);
	while (!reply->count && loop_run_for(&host->loop, TIMEOUT_S * 1000))
		;
	return reply->code;
}

uint32_t host_create(struct host *host, const char *id, const char *namespaces, const char *script,
		     bool terminal, struct reply *reply)
{
	Moat__Agent__CreateContainerRequest request = MOAT__AGENT__CREATE_CONTAINER_REQUEST__INIT;
	Moat__Agent__Tree root = MOAT__AGENT__TREE__INIT;
	Moat__Agent__Stdio stdio = MOAT__AGENT__STDIO__INIT;
	_cleanup_free_ char *config = xasprintf(
		"{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"rootfs\"},\"process\":{"
		"\"args\":[\"sh\",\"-c\",\"%s\"],\"cwd\":\"/\",\"terminal\":%s,"
		"\"env\":[\"PATH=/bin\"]},\"mounts\":["
		"{\"destination\":\"/proc\",\"type\":\"proc\"},"
		"{\"destination\":\"/dev\",\"type\":\"tmpfs\"},"
		"{\"destination\":\"/dev/pts\",\"type\":\"devpts\"}],"
		"\"linux\":{\"namespaces\":[{\"type\":\"mount\"},{\"type\":\"network\"}%s]}}",
		script, terminal ? "true" : "false", namespaces);

	stdio.terminal = terminal;
	stdio.stdin_port = HOST_PORT_FIRST;
	if (!terminal) {
		stdio.stdout_port = HOST_PORT_FIRST + 1;
		stdio.stderr_port = HOST_PORT_FIRST + 2;
	}
	stdio.rows = 31;
	stdio.columns = 97;
	request.id = (char *)id;
	request.config = config;
	request.root = &root;
	request.stdio = &stdio;
	return host_call(host, "CreateContainer", &request.base, reply);
}

static uint32_t call_container(struct host *host, const char *method, const char *id)
{
	Moat__Agent__ContainerRequest request = MOAT__AGENT__CONTAINER_REQUEST__INIT;
	struct reply reply;

	request.id = (char *)id;
	return host_call(host, method, &request.base, &reply);
}

uint32_t host_start_container(struct host *host, const char *id)
{
	return call_container(host, "StartContainer", id);
}

uint32_t host_delete(struct host *host, const char *id)
{
	return call_container(host, "DeleteContainer", id);
}

uint32_t host_signal(struct host *host, const char *id, uint32_t signal)
{
	Moat__Agent__SignalRequest request = MOAT__AGENT__SIGNAL_REQUEST__INIT;
	struct reply reply;

	request.id = (char *)id;
	request.signal = signal;
	return host_call(host, "Signal", &request.base, &reply);
}

static int wait_process(struct host *host, const char *id, const char *exec_id)
{
	Moat__Agent__ProcessRequest request = MOAT__AGENT__PROCESS_REQUEST__INIT;
	struct reply reply;

	request.id = (char *)id;
	request.exec_id = (char *)exec_id;
	return host_call(host, "Wait", &request.base, &reply) == TTRPC_OK ? (int)reply.number : -1;
}

int host_wait(struct host *host, const char *id)
{
	return wait_process(host, id, "");
}

int host_wait_exec(struct host *host, const char *exec_id)
{
	return wait_process(host, "c", exec_id);
}

uint32_t host_exec(struct host *host, const char *exec_id, const char *script, bool terminal,
		   int first, struct reply *reply)
{
	Moat__Agent__ExecRequest request = MOAT__AGENT__EXEC_REQUEST__INIT;
	Moat__Agent__Stdio stdio = MOAT__AGENT__STDIO__INIT;
	_cleanup_free_ char *process =
		xasprintf("{\"args\":[\"sh\",\"-c\",\"%s\"],\"cwd\":\"/\",\"terminal\":%s,"
			  "\"env\":[\"PATH=/bin\"]}",
			  script, terminal ? "true" : "false");

	stdio.terminal = terminal;
	stdio.stdin_port = HOST_PORT_FIRST + (uint32_t)first;
	if (!terminal) {
		stdio.stdout_port = stdio.stdin_port + 1;
		stdio.stderr_port = stdio.stdin_port + 2;
	}
	request.id = (char *)"c";
	request.exec_id = (char *)exec_id;
	request.process = process;
	request.stdio = &stdio;
	return host_call(host, "Exec", &request.base, reply);
}

char *host_read(struct host *host, int stream)
{
	return fd_read_text(host->streams[stream], OUTPUT_MAX, NULL);
}
