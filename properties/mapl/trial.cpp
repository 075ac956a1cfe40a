// Judges a case of MAPL against the reference: bit by bit, within bounds, and by what was sent.
#include "trial.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

#include <truestep/problem/text.hpp>

#include "boundary_recording.hpp"

namespace truestep::properties::mapl {

namespace {

/// Saves one boundary that was recorded completely; traces hold neither means over replicas nor
/// micro-batches of unequal size.
bool save_boundary(const std::filesystem::path& path, const std::string& source, const Scenario& scenario,
                   const std::vector<RankRecording>& seen) {
    if (scenario.run.replicas > 1 || scenario.run.uneven > 0 || scenario.boundaries() != 1 ||
        seen.size() != 2)
        return false;
    try {
        verify::mapl::write(path, recording_of(scenario, seen, 0), source);
    } catch (const std::exception&) { // a run whose recording is incomplete
        return false;
    }
    return true;
}

template <class T>
Matrix<T> read_as(const Floats& values, Index columns) {
    const Index rows = columns == 0 ? 0 : static_cast<Index>(values.size()) / columns;
    Matrix<T> made(rows, columns);
    for (Index i = 0; i < made.size(); ++i)
        made.data()[i] = static_cast<T>(static_cast<double>(values[static_cast<std::size_t>(i)]));
    return made;
}

} // namespace

Matrix<double> matrix_of(const Floats& values, Index columns) {
    return read_as<double>(values, columns);
}

Matrix<verify::Bounded> bounded_of(const Floats& values, Index columns) {
    return read_as<verify::Bounded>(values, columns);
}

Floats floats_of(const Matrix<float>& values) {
    return {values.data(), values.data() + values.size()};
}

bool few_bits(const Floats& values, float steps) {
    return std::ranges::all_of(values, [steps](float value) {
        return std::abs(value) <= 4.0F && value * steps == std::round(value * steps);
    });
}

Ids ids_of(const Trial& trial, Index step, Index micro) {
    const std::vector<Id> ids = trial.scenario.ids(step, micro);
    return {ids.begin(), ids.end()};
}

std::string boundary_text(Index boundary, const std::string& what) {
    return "at boundary " + std::to_string(boundary) + ", " + what;
}

std::string boundary_text(const Scenario& scenario, int sender, const std::string& what) {
    return "in replica " + std::to_string(scenario.replica_of(sender)) + " " +
           boundary_text(scenario.stage_of(sender), what);
}

template <class T>
Boundary<T> shown_boundary(const Trial& trial, Index boundary, Index step) {
    const RankRecording& sender = trial.seen[static_cast<std::size_t>(boundary)];
    const RankRecording& receiver = trial.seen[static_cast<std::size_t>(boundary + 1)];
    const Case& run = trial.run;
    Boundary<T> made;
    made.A = read_as<T>(sender.at(key(step, "s.A")), run.rank);
    made.trains_anchors = run.anchors != Anchors::fixed;
    made.payload = run.payload;
    if (run.anchors == Anchors::none)
        return made;
    const auto anchor = [&](const Floats& table, Side side) {
        Floats rows = trial.scenario.state(boundary, side).rows;
        if (rows.empty())
            rows = anchor_rows(trial.scenario.settings(boundary, side), side);
        return Anchor<T>{read_as<T>(table, run.rank), read_as<T>(rows, run.width)};
    };
    made.p = anchor(sender.at(key(step, "s.E")), Side::sender);
    made.q = anchor(receiver.at(key(step, "r.E")), Side::receiver);
    return made;
}

template Boundary<float> shown_boundary(const Trial&, Index, Index);
template Boundary<double> shown_boundary(const Trial&, Index, Index);
template Boundary<verify::Bounded> shown_boundary(const Trial&, Index, Index);

Trial::Trial(const gate::Implementation& implementation, const Case& of)
    : TrialOf(of, {}), scenario(scenario_of(of)),
      candidate(dynamic_cast<const Implementation&>(implementation)) {}

gate::Finding::Size Trial::size(Index step) const {
    return {scenario.run.width * scenario.run.rank, scenario.run.ranks(), step + 1}; // elements of A
}

gate::FindingOnDemand Trial::on_demand(Index step) const {
    return {.save = [scenario = scenario, seen = seen](
                        const std::filesystem::path& path,
                        const std::string& source) { return save_boundary(path, source, scenario, seen); },
            .parted_at = step + 1};
}

Trial Trial::of_replica(Index number) const {
    Trial one = *this;
    if (run.replicas == 1)
        return one;
    one.replica = number;
    one.where = "in replica " + std::to_string(number) + ", ";
    const auto begin = seen.begin() + number * run.workers;
    one.seen.assign(begin, begin + run.workers);
    one.scenario.ids = [inner = scenario.ids, before = number * run.micro](Index step, Index micro) {
        return inner(step, before + micro);
    };
    return one;
}

OnTheWire sent_values(const Scenario& scenario, const std::vector<RankRecording>& all, Index boundary,
                      Index step, Index micro, bool forward) {
    const RankRecording& from = all[static_cast<std::size_t>(forward ? boundary : boundary + 1)];
    const int to = static_cast<int>(forward ? boundary + 1 : boundary);
    const auto found = from.wire.find(wire_key(key(step, micro, forward ? "forward" : "backward"), to));
    OnTheWire made;
    if (found == from.wire.end())
        return made;
    made.bytes = found->second.size();
    const auto count = static_cast<std::size_t>(scenario.ids(step, micro).size()) *
                       static_cast<std::size_t>(scenario.run.rank);
    const std::size_t each = value_bytes(scenario.run.payload);
    made.values.resize(std::min(count, made.bytes / each));
    for (std::size_t i = 0; i < made.values.size(); ++i) {
        std::uint32_t bits = 0; // the upper bytes, if there are only two
        for (std::size_t byte = 0; byte < each; ++byte)
            bits |= static_cast<std::uint32_t>(found->second[i * each + byte]) << (8U * (4 - each + byte));
        made.values[i] = std::bit_cast<float>(bits);
    }
    return made;
}

OnTheWire Trial::sent(const std::vector<RankRecording>& all, Index boundary, Index step, Index micro,
                      bool forward) const {
    return sent_values(scenario, all, boundary, step, micro, forward);
}

void Trial::add(const verify::Comparison& compared, Index step, const std::string& what,
                const std::string& whose) {
    judged.counts.add(
        {compared.compared, compared.mismatched, compared.greatest_ulps, compared.share_of_limit});
    if (compared.ok())
        return;
    std::string first;
    if (compared.expected_size != compared.actual_size)
        first = " (" + std::to_string(compared.actual_size) + " values for " +
                std::to_string(compared.expected_size) + ")";
    else if (!compared.first.empty())
        first = ", first at " + std::to_string(compared.first.front().index) + ": " +
                verify::with_bits(compared.first.front().actual) + " for " +
                verify::with_bits(compared.first.front().expected);
    violated(step, what + " is not " + whose + ": " + verify::summary(compared) + first);
}

void Trial::same(const Floats& expected, const Floats& actual, Index step, const std::string& what,
                 const std::string& whose) {
    add(verify::compare(expected, actual, verify::Level::exact()), step, what, whose);
}

void Trial::same(const std::vector<RankRecording>& expected, const std::vector<RankRecording>& actual,
                 const std::string& whose) {
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
        const std::string of = "of rank " + std::to_string(rank) + ", ";
        for (const auto& [what, values] : expected[rank].values)
            same(values, actual[rank].at(what), 0, of + what, whose);
        for (const auto& sent : expected[rank].wire) {
            const auto found = actual[rank].wire.find(sent.first);
            expect(found != actual[rank].wire.end() && found->second == sent.second, 0,
                   [&] { return of + sent.first + " is not " + whose; });
        }
    }
}

void Trial::near(const Matrix<verify::Bounded>& expected, const Floats& actual, Index step,
                 const std::string& what) {
    std::vector<double> values;
    std::vector<double> limits;
    for (Index i = 0; i < expected.size(); ++i) {
        values.push_back(expected.data()[i].value());
        limits.push_back(2.0 * expected.data()[i].error());
    }
    add(verify::compare(values, limits, actual), step, what, "the reference's within its bound");
}

void Trial::near(const Matrix<double>& expected, const Matrix<double>& actual, double limit, Index step,
                 const std::string& what) {
    const double off = expected.rows() == actual.rows() && expected.cols() == actual.cols()
                           ? (expected - actual).norm()
                           : HUGE_VAL;
    within(off, limit, step, what);
}

void Trial::within(double off, double limit, Index step, const std::string& what) {
    if (limit > 0.0 && off <= limit)
        judged.counts.share_of_limit = std::max(judged.counts.share_of_limit, off / limit);
    expect(off <= limit, step,
           [&] { return what + ": off by " + shortest(off) + ", and the limit is " + shortest(limit); });
}

} // namespace truestep::properties::mapl
