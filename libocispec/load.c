/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Documents from files, with the messages that a person who lacks the file needs. */
#include "oci/load.h"

#include "base/file.h"
#include "base/json.h"

#include <fcntl.h>

struct oci_config *oci_config_load(int bundle, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;

	text = file_read(bundle, "config.json", JSON_SIZE_MAX, &size, err);
	if (!text) {
		if (err && err->code == ENOENT)
			err_hint(err, "a bundle is a directory with config.json and the root file "
				      "system; \"moat spec\" makes a config.json to start from");
		return NULL;
	}
	return oci_config_parse(text, size, "config.json", err);
}

struct moat_settings *moat_settings_load(const char *path, struct err *err)
{
	const char *from = path ? path : MOAT_SETTINGS_PATH;
	_cleanup_free_ char *text = NULL;
	struct err local;
	size_t size = 0;

	text = file_read(AT_FDCWD, from, JSON_SIZE_MAX, &size, &local);
	if (text)
		return moat_settings_parse(text, size, from, err);
	if (!path && local.code == ENOENT)
		return moat_settings_new();
	if (err)
		*err = local;
	return NULL;
}
