// Compares the ranks' settings of dense training, and names the rank and setting that differ.
#include <truestep/distributed/dense/agreement.hpp>

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::distributed::dense {

namespace {

template <class Value>
std::string text_of(const Value& value) {
    if constexpr (std::floating_point<Value>)
        return shortest(value);
    else if constexpr (std::integral<Value>)
        return std::to_string(value);
    else
        return std::string(name(value));
}

template <class List>
std::string list_of(const List& values) {
    std::string all;
    for (const auto& value : values)
        if constexpr (requires { std::string(value); })
            all += (all.empty() ? "" : "/") + std::string(value);
        else
            all += (all.empty() ? "" : "/") + std::to_string(value);
    return all;
}

} // namespace

Words words_of(const Problem& problem) {
    Words words{{"order", text_of(problem.order)},
                {"accumulation", text_of(problem.accumulation)},
                {"clip_norm", text_of(problem.clip_norm)},
                {"copies", text_of(problem.copies)},
                {"the number of tensors", std::to_string(problem.tensors.size())},
                {"the number of groups", std::to_string(problem.groups.size())}};
    for (const Tensor& tensor : problem.tensors)
        words.emplace_back("tensor", tensor.name + " " + list_of(tensor.shape) + " " + tensor.role);
    for (std::size_t i = 0; i < problem.groups.size(); ++i) {
        const std::string group = "group " + std::to_string(i) + "'s ";
        words.emplace_back(group + "rule", text_of(problem.groups[i].rule));
        words.emplace_back(group + "roles", list_of(problem.groups[i].roles));
        visit_settings(problem.groups[i], [&](const char* what, const auto& value, const auto&...) {
            words.emplace_back(group + what, text_of(value));
        });
    }
    return words;
}

void agree_on(const Problem& problem, bool sharded, Index steps, Communicator& ranks) {
    Words words = words_of(problem);
    words.emplace_back("micro_batches", list_of(problem.micro_batches));
    words.emplace_back("sharded", sharded ? "true" : "false");
    words.emplace_back("the step", std::to_string(steps));
    std::string text;
    for (const auto& [what, value] : words)
        text += one_line(what) + "\t" + one_line(value) + "\n";
    std::vector<std::size_t> sizes;
    for (const std::uint64_t size : gather_records(ranks, static_cast<std::uint64_t>(text.size())))
        sizes.push_back(static_cast<std::size_t>(size));
    std::size_t bytes = 0;
    for (const std::size_t size : sizes)
        bytes += size;
    std::string all(bytes, '\0');
    ranks.start_all_gather(Traffic::agreement, text.data(), all.data(), sizes)->wait();
    const std::string first = all.substr(0, sizes[0]);
    std::size_t begin = sizes[0];
    for (std::size_t rank = 1; rank < sizes.size(); begin += sizes[rank], ++rank) {
        const std::string other = all.substr(begin, sizes[rank]);
        // The first line that differs; the lists that lines belong to begin with their lengths.
        for (std::size_t a = 0, b = 0; a < first.size() && b < other.size();) {
            const std::string mine = first.substr(a, first.find('\n', a) - a);
            const std::string theirs = other.substr(b, other.find('\n', b) - b);
            if (mine != theirs) {
                const std::size_t tab = mine.find('\t');
                throw Error("rank " + std::to_string(rank) + " has " + theirs.substr(0, theirs.find('\t')) +
                            " " + theirs.substr(theirs.find('\t') + 1) + " where rank 0 has " +
                            (theirs.substr(0, tab) == mine.substr(0, tab) ? mine.substr(tab + 1)
                                                                          : mine.substr(0, tab)) +
                            "; start all ranks with the same");
            }
            a += mine.size() + 1;
            b += theirs.size() + 1;
        }
    }
}

} // namespace truestep::distributed::dense
