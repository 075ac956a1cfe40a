// The inputs on which the passes are compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compare_forms.hpp"

namespace truestep::properties::scape::floats {

/// A function of one variable: a pass with all inputs fixed but one.
struct OneVariable {
    std::string name;
    const Operation* operation = nullptr;
    int column = 0;
    Masks masks = Masks::full;
    int workers = 3;
    float others = 0.0F;
    float decay = 0.9999F;
};
[[nodiscard]] std::vector<OneVariable> functions_of_one_variable();

/// All signs and exponents, with `mantissas` of each: the ends, evenly spread ones, and as many drawn.
[[nodiscard]] std::vector<Bits> sample_of_all_floats(Bits mantissas, std::uint64_t seed);

[[nodiscard]] Run over_sample(const OneVariable& function, std::vector<Bits> sample);
[[nodiscard]] Run over_all_floats(const OneVariable& function);

/// A pass with two of its inputs over all pairs of exponents and signs, with all inputs drawn, or with all
/// combinations of special values. Everything else is drawn.
struct SeveralVariables {
    std::string name;
    Run run;
};
[[nodiscard]] std::vector<SeveralVariables> functions_of_several_variables(bool all, std::uint64_t seed);

} // namespace truestep::properties::scape::floats
