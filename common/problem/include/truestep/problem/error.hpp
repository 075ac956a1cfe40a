#pragma once

#include <stdexcept>
#include <string>

namespace truestep {

/// Bad input or an impossible setting. The text is one line that says what is wrong, where, and what to do;
/// the tool prints it and exits with status 2.
class Error : public std::runtime_error {
  public:
    explicit Error(const std::string& text) : std::runtime_error(text) {}
};

} // namespace truestep
