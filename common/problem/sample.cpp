// Chooses the segments and tensors that a recording of only a part of the model holds.
#include <truestep/problem/sample.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mix64.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem {

namespace {

std::string began(const std::string& text) {
    return "sample is '" + text + "': ";
}

/// Each tensor's first choice comes before any tensor's second, so that few tensors are left out.
Sample drawn(const Problem& problem, double share, std::uint64_t seed) {
    struct Candidate {
        std::size_t turn; ///< its position among the choices of its tensor
        std::uint64_t drawn;
        std::size_t segment;
    };
    std::vector<Candidate> all;
    for (std::size_t i = 0; i < problem.segments.size(); ++i)
        if (problem.segments[i].size() > 0)
            all.push_back({0, mix64(seed ^ mix64(i + 1)), i});
    const auto tensor_of = [&](const Candidate& one) {
        return problem.layout.tensor_at(problem.segments[one.segment].begin);
    };
    for (auto first = all.begin(); first != all.end();) { // segments of a tensor stand side by side
        const auto last = std::find_if(first, all.end(), [&, tensor = tensor_of(*first)](const auto& one) {
            return tensor_of(one) != tensor;
        });
        std::sort(first, last, [](const auto& a, const auto& b) {
            return std::tie(a.drawn, a.segment) < std::tie(b.drawn, b.segment);
        });
        for (std::size_t turn = 0; first != last; ++first, ++turn)
            first->turn = turn;
    }
    std::ranges::sort(all, {},
                      [](const Candidate& one) { return std::tuple(one.turn, one.drawn, one.segment); });
    const auto most = static_cast<Index>(share * static_cast<double>(problem.layout.size()));
    Sample sample;
    Index size = 0;
    for (const Candidate& one : all)
        if (const Index more = problem.segments[one.segment].size(); size + more <= most) {
            size += more;
            sample.push_back(one.segment);
        }
    if (sample.empty())
        sample.push_back(std::ranges::min_element(all, {}, [&](const Candidate& one) {
                             return problem.segments[one.segment].size();
                         })->segment);
    return sample;
}

void add_named(const Problem& problem, const std::string& name, const std::string& text, Sample& sample) {
    const auto& tensors = problem.layout.tensors();
    auto tensor = std::ranges::find(tensors, name, &Tensor::name);
    std::optional<Index> wanted;
    if (const auto at = name.rfind('@'); tensor == tensors.end() && at != std::string::npos) {
        tensor = std::ranges::find(tensors, name.substr(0, at), &Tensor::name);
        wanted = parse_number<Index>(name.substr(at + 1));
        if (tensor != tensors.end() && (!wanted || *wanted < 0 || *wanted >= tensor->size))
            throw Error(began(text) + "tensor " + tensor->name + " has indices 0 to " +
                        std::to_string(tensor->size - 1) + "; give one of them after @");
    }
    if (tensor == tensors.end() || tensor->size == 0)
        throw Error(began(text) +
                    (tensor == tensors.end() ? "there is no tensor '" + name + "'"
                                             : "tensor " + name + " is empty") +
                    "; give a share such as 0.001, or 0.001:SEED, or tensors such as " +
                    tensors.front().name);
    const Index begin = problem.layout.begin(static_cast<std::size_t>(tensor - tensors.begin()));
    for (std::size_t i = 0; i < problem.segments.size(); ++i) {
        const Segment& segment = problem.segments[i];
        const bool inside = segment.begin >= begin && segment.end <= begin + tensor->size;
        if (inside && segment.size() > 0 &&
            (!wanted || (segment.begin <= begin + *wanted && begin + *wanted < segment.end)))
            sample.push_back(i);
    }
}

} // namespace

Sample choose_sample(const Problem& problem, const std::string& text) {
    const auto colon = text.find(':');
    Sample sample;
    if (const auto share = parse_number<double>(text.substr(0, colon))) {
        const auto seed = colon == std::string::npos ? std::optional<std::uint64_t>(1)
                                                     : parse_number<std::uint64_t>(text.substr(colon + 1));
        if (!(*share > 0.0 && *share <= 1.0) || !seed)
            throw Error(began(text) + "a share is more than 0 and at most 1, such as 0.001, or 0.001:SEED");
        sample = drawn(problem, *share, *seed);
    } else {
        for (std::size_t begin = 0; begin <= text.size();) {
            const auto comma = std::min(text.find(',', begin), text.size());
            add_named(problem, text.substr(begin, comma - begin), text, sample);
            begin = comma + 1;
        }
    }
    std::ranges::sort(sample);
    sample.erase(std::unique(sample.begin(), sample.end()), sample.end());
    return sample;
}

void check(const Sample& sample, const Problem& problem) {
    if (sample.empty())
        throw Error("sample is empty; name the segments that are held, or leave it out where all are");
    for (std::size_t i = 0; i < sample.size(); ++i)
        if (sample[i] >= problem.segments.size() || (i > 0 && sample[i] <= sample[i - 1]))
            throw Error("sample: entry " + std::to_string(i) + " is " + std::to_string(sample[i]) +
                        "; the entries are numbers of segments, 0 to " +
                        std::to_string(problem.segments.size() - 1) + ", ascending");
}

std::vector<Range> ranges_of(const Sample& sample, const Problem& problem) {
    std::vector<Range> ranges;
    for (const std::size_t segment : sample)
        ranges.push_back({problem.segments[segment].begin, problem.segments[segment].end});
    return ranges;
}

std::string describe(const Sample& sample, const Problem& problem, std::size_t most) {
    const Layout held = problem.layout.part(ranges_of(sample, problem));
    std::string text;
    for (std::size_t i = 0; i < std::min(most, held.tensors().size()); ++i) {
        const Tensor& tensor = held.tensors()[i];
        const std::size_t whole = problem.layout.tensor_at(held.place(held.begin(i)));
        const Index first = held.place(held.begin(i)) - problem.layout.begin(whole);
        text += (text.empty() ? "" : "; ") + tensor.name;
        if (tensor.size < problem.layout.tensors()[whole].size)
            text += ", index " + std::to_string(first) + " to " + std::to_string(first + tensor.size - 1);
    }
    const std::size_t more = held.tensors().size() - std::min(most, held.tensors().size());
    return text + (more > 0 ? "; and " + std::to_string(more) + " more" : "");
}

} // namespace truestep::problem
