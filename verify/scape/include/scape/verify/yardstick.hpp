#pragma once

#include <cstdint>

#include <scape/reference/scape.hpp>
#include <scape/verify/bounded_in_eigen.hpp>

/// What the reference of SCAPE asks of the scalar of level REL beyond arithmetic.
namespace scape::verify {

/// For the selection.
inline std::uint64_t score(const Bounded& a) {
    return reference::score(a.value());
}

} // namespace scape::verify

namespace scape::reference {

/// An implementation may take the norm in fp32; the bound covers that.
template <>
struct ClipReal<verify::Bounded> {
    using type = verify::Bounded;
};

} // namespace scape::reference
