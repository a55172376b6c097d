/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Seccomp filters and what they answer. */
#include "seccomp_filters.h"

#include "base/str.h"
#include "oci/config.h"

#include <linux/filter.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct oci_config *config;

const struct oci_seccomp *parsed(void)
{
	return config->linux_->seccomp;
}

const struct oci_seccomp *parse(const char *json)
{
	char *text = xasprintf("{\"ociVersion\":\"1.0.0\",\"root\":{\"path\":\"r\"},\"linux\":{"
			       "\"seccomp\":%s}}",
			       json);
	struct err err = { 0 };

	oci_config_free(config);
	config = oci_config_parse(text, strlen(text), "config.json", &err);
	free(text);
	if (!config)
		fail_msg("%s", err.text);
	return parsed();
}

struct seccomp_filter compile(const char *json, const char *cache)
{
	struct seccomp_filter filter;
	struct err err = { 0 };

	if (seccomp_filter_compile(parse(json), cache, &filter, &err) < 0)
		fail_msg("%s", err.text);
	return filter;
}

/* Classic BPF, as far as filters use it. */
uint32_t run(const struct seccomp_filter *filter, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < filter->count; pc++) {
		const struct sock_filter *i = &filter->insns[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			memcpy(&a, (const char *)data + i->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += a > i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		default:
			fail_msg("instruction %#x", i->code);
		}
	}
	fail_msg("ran off the end");
	return 0;
}

uint32_t answer(const struct seccomp_filter *filter, uint32_t arch, uint32_t nr, uint64_t argument)
{
	const struct seccomp_data data = { .nr = (int)nr, .arch = arch, .args = { argument } };

	return run(filter, &data);
}
