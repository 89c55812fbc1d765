/* Steps of matrices, for one set of instructions. */
#include "normals.h"

#define TEMPLATE "stiefel.h"
#include "dtypes.h"
#undef TEMPLATE
