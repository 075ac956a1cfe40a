#pragma once

#include <vector>

#include "instructions.hpp"

namespace truestep::simulator {

/// Gives registers whose values are never needed at the same time one place. `forms`: of each
/// instruction. Each lane has its own column of every place and is at one instruction at a time, so
/// other lanes do not matter.
void share_registers(Kernel& kernel, const std::vector<Form>& forms);

} // namespace truestep::simulator
