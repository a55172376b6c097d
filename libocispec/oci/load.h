/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Documents from files. */
#pragma once

#include "oci/config.h"
#include "oci/settings.h"

#define MOAT_SETTINGS_PATH "/etc/moat/moat.json"

/*
 * oci_config_load() - config.json of a bundle.
 * @bundle: descriptor of the bundle's directory.
 *
 * Returns a struct to be released, or NULL with err set.
 */
struct oci_config *oci_config_load(int bundle, struct err *err);

/*
 * moat_settings_load() - the operator's file.
 * @path: NULL for MOAT_SETTINGS_PATH, which need not exist: then all is as by default.
 *
 * Returns a struct to be released, or NULL with err set.
 */
struct moat_settings *moat_settings_load(const char *path, struct err *err);
