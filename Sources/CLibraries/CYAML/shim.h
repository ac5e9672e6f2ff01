// The declarations of libyaml that Swift imports.
#pragma once
#include <yaml.h>
