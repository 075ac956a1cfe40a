// Parses the boundary compression in an optimizer's name, such as +mapl:8:0.1.
#include "compression.hpp"

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::training {

namespace {

constexpr char mark = '+';

/// Cuts the text off up to the next colon.
std::string_view next_of(std::string_view& text) {
    const std::string_view part = text.substr(0, text.find(':'));
    text.remove_prefix(part.size());
    return part;
}

std::optional<Subspace> subspace_of(std::string_view name) {
    if (name == "fixed")
        return Subspace::fixed;
    if (name == "free")
        return Subspace::free;
    if (name == "mapl")
        return Subspace::mapl;
    return std::nullopt;
}

} // namespace

std::string_view without_compression(std::string_view optimizer) {
    return optimizer.substr(0, optimizer.find(mark));
}

std::optional<Compression> compression_of(const std::string& optimizer) {
    const std::size_t begin = optimizer.find(mark);
    if (begin == std::string::npos)
        return std::nullopt;
    const auto refuse = [&](const std::string& why) {
        throw Error("'" + optimizer + "': what stands behind " + mark + " is " + why +
                    "; it must be fixed:TIMES, free:TIMES or mapl:TIMES, with :RATE of A behind it or not, "
                    "as in adams+mapl:8");
    };
    std::string_view rest = std::string_view(optimizer).substr(begin + 1);
    Compression made;
    if (const auto subspace = subspace_of(next_of(rest)))
        made.subspace = *subspace;
    else
        refuse("no kind of boundary");
    if (rest.empty())
        refuse("without a number of times");
    rest.remove_prefix(1);
    const auto times = parse_number<std::size_t>(next_of(rest));
    if (!times || *times < 1)
        refuse("without a whole number of times");
    made.times = *times;
    if (rest.empty())
        return made;
    rest.remove_prefix(1);
    const auto rate = parse_number<double>(rest);
    if (!rate || !(*rate > 0 && *rate <= 10))
        refuse("with a rate of A that is not above 0 and at most 10");
    if (made.subspace == Subspace::fixed)
        refuse("fixed, which has no rate");
    made.rate = *rate;
    return made;
}

} // namespace truestep::training
