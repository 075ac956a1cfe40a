// Records synthetic runs of the reference as traces.
#include <truestep/verify/mapl/traces.hpp>

#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include <truestep/problem/data.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/mix64.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/synthetic_run.hpp>

#include "codewords.hpp"
#include "step.hpp"
#include "visit.hpp"

namespace truestep::verify::mapl {

namespace {

using verify::Setting;

std::vector<Setting> made_up_settings() {
    const Settings usual;
    return {
        {"steps", "4", "number of steps"},
        {"micro-batches", "2", "of a step"},
        {"tokens", "6", "of a micro-batch"},
        {"width", "8", "features, D"},
        {"rank", "3", "of the subspace, at most the width"},
        {"vocabulary", "11", "ids are below it"},
        {"anchors", "two", "none, fixed, shared or two"},
        {"order", std::string(name(usual.order)), "of SPEL: project_first or momentum_first"},
        {"payload", std::string(name(usual.payload)), "of Z and dZ: fp32 or bf16"},
        {"codewords", "0", "of each codebook; 0: Z travels as it is"},
        {"groups", "1", "of columns of Z, each with codebooks of its own"},
        {"rounds", "1", "each encodes what the one before has left"},
        {"subsets", "1", "of codewords, of which one travels with each micro-batch"},
        {"decay", shortest(usual.quantization.decay), "of what codewords were, in [0, 1)"},
        {"beta", shortest(usual.beta), "decay of m, in [0, 1)"},
        {"direction-iterations", std::to_string(usual.direction_iterations), "of the polar factor"},
        {"retraction-iterations", std::to_string(usual.retraction_iterations), "of the retraction"},
        {"rate", "0.05", "of the subspace, below 0.52"},
        {"anchor-rate", "0.1", "of trained anchors, by plain descent"},
        {"back", "ascending", "order in which micro-batches come back: ascending or descending"},
        {"seed", "1", "of all that is made up"},
        {"data", "normal", "class of activations and gradients: " + problem::data_class_names()},
    };
}

Config config_of(const verify::SyntheticRun& run) {
    const verify::Settings& given = run.settings;
    Config config;
    Settings& settings = config.settings;
    const auto read = [&](const std::string& key, auto& value, auto... how) {
        given.read(key == "subspace_rank" ? "rank" : key, value, how...);
    };
    visit_settings(config, read);
    given.read("codewords", settings.quantization.codewords);
    visit_codewords(settings, read);
    const std::string back = given.text("back");
    if (back != "ascending" && back != "descending")
        throw Error("--back is '" + back + "'; it must be ascending or descending");
    config.ascending = back == "ascending";
    check(settings);
    verify::check_room(run.output, static_cast<int>(config.micro), config.tokens * settings.width * 4,
                       config.steps);
    // Parsing the text that will be read checks the remaining rules.
    static_cast<void>(parse_config(config_text(config), "truestep record"));
    return config;
}

/// The reference, and the values that pass through it.
class Recorder {
  public:
    Recorder(const Config& config, const verify::Settings& given)
        : config_(config), given_(given), data_(problem::parse_data_class(given.text("data"))),
          rate_(given.number("rate")), anchor_rate_(static_cast<float>(given.number("anchor-rate"))) {
        check_rate(rate_);
        recording_.config = config_;
        const Settings& of = config_.settings;
        boundary_.A = rows_of<float>(first_subspace(of.width, of.rank, of.seed), of.rank);
        boundary_.trains_anchors = config_.trains_anchors();
        boundary_.payload = of.payload;
        m_ = Matrix<float>::Zero(of.width, of.rank);
        keep("initial/A", boundary_.A);
        if (quantizes(of)) {
            const auto books = Quantizer<float>::books(of, first_codebooks(of));
            quantizer_.emplace(Quantizer<float>{of, books, books, config_.before});
            keep("initial/C", in_one_row(books));
        }
        if (of.anchors == Anchors::none)
            return;
        boundary_.p = {synthetic(of.vocabulary, of.rank, 1, 1),
                       rows_of<float>(anchor_rows(of, Side::sender), of.width)};
        boundary_.q = boundary_.p;
        keep("P_sender", boundary_.p.P);
        if (of.anchors != Anchors::two)
            return;
        boundary_.q = {synthetic(of.vocabulary, of.rank, 2, 1),
                       rows_of<float>(anchor_rows(of, Side::receiver), of.width)};
        keep("P_receiver", boundary_.q.P);
    }

    void step(Index step) {
        const Settings& of = config_.settings;
        recording_.numbers["rate"].push_back(rate_);
        if (!boundary_.p.none())
            keep(of_step(step, "E_sender"), boundary_.p.E);
        if (of.anchors == Anchors::two)
            keep(of_step(step, "E_receiver"), boundary_.q.E);
        const StepEnds<float> ends = ends_of(step);
        const Gradients<float> gradients = pass_through(config_, boundary_, ends);
        if (quantizer_)
            keep_codebooks(step);
        hand_on(config_, gradients, ends);
        if (config_.trains_anchors()) {
            const auto [of_p, of_q] = of_tables(config_, gradients);
            boundary_.p.E = minus(boundary_.p.E, scaled(anchor_rate_, of_p));
            boundary_.q.E = minus(boundary_.q.E, scaled(anchor_rate_, of_q));
        }
        require_finite(boundary_.p.E, "an anchor", step);
        require_finite(boundary_.q.E, "an anchor", step);
        const SpelStep<float> made = spel_if_finite(of, boundary_.A, m_, gradients.of_basis(), rate_);
        boundary_.A = made.A;
        m_ = made.m;
        for (const auto& [name, values] :
             {std::pair("m", &m_), std::pair("A", &boundary_.A), std::pair("A_receiver", &boundary_.A)})
            ends.result(name, 0, *values);
    }

    [[nodiscard]] const Recording& recording() const { return recording_; }

  private:
    void keep(const std::string& name, const Matrix<float>& values) {
        recording_.vectors[name] = {values.data(), values.data() + values.size()};
    }
    [[nodiscard]] Index number(Index step, Index micro) const { return (step - 1) * config_.micro + micro; }

    [[nodiscard]] Matrix<float> synthetic(Index rows, Index columns, int what, Index number) const {
        Matrix<float> made(rows, columns);
        problem::fill_gradient({made.data(), static_cast<std::size_t>(made.size())}, data_,
                               given_.seed("seed"), what, number);
        return made;
    }
    /// Draws ids with repetitions.
    [[nodiscard]] Ids ids(Index step, Index micro) {
        Ids made;
        for (Index token = 0; token < config_.tokens; ++token) {
            const auto at = static_cast<std::uint64_t>(number(step, micro) * config_.tokens + token);
            const std::uint64_t drawn = problem::mix64(config_.settings.seed + problem::mix64(at));
            made.push_back(
                static_cast<Index>(drawn % static_cast<std::uint64_t>(config_.settings.vocabulary)));
            recording_.numbers["ids"].push_back(static_cast<double>(made.back()));
        }
        return made;
    }

    [[nodiscard]] StepEnds<float> ends_of(Index step) {
        StepEnds<float> ends;
        ends.input = [this, step](const char* name, Index micro) {
            const int what = name == std::string_view("X") ? 3 : 4;
            Matrix<float> made =
                synthetic(config_.tokens, config_.settings.width, what, number(step, micro));
            keep(of_step(step, of_micro(name, micro)), made);
            return made;
        };
        ends.ids = [this, step](Index micro) { return ids(step, micro); };
        ends.result = [this, step](const std::string& name, Index micro, const Matrix<float>& values) {
            if (config_.settings.payload == Payload::bf16 && (name == "Z" || name == "dZ"))
                require_finite(values, name + " in bf16", step);
            keep(of_step(step, of_micro(name, micro)), values);
        };
        if (quantizer_)
            ends.coded = [this, kept = ends.result](Matrix<float> Z, Index micro) {
                const std::vector<Word> words = travelling(config_.settings, quantizer_->travelled);
                kept("indices", micro, quantizer_->through(Z).cast<float>());
                kept("codewords", micro, in_one_row(quantizer_->C, words));
                kept("Z", micro, Z);
                return Z;
            };
        return ends;
    }

    /// Throws for values that both sides of a boundary would refuse.
    static void require_finite(const Matrix<float>& values, const std::string& what, Index step) {
        if (!values.allFinite())
            throw Error("not written: " + what + " is not finite in step " + std::to_string(step) +
                        " (choose other settings)");
    }

    void keep_codebooks(Index step) {
        const Matrix<float> learned = in_one_row(quantizer_->L);
        require_finite(learned, "a codeword", step);
        keep(of_step(step, "L"), learned);
        for (const char* side : {"C", "C_receiver"})
            keep(of_step(step, side), in_one_row(quantizer_->C));
    }

    Config config_;
    const verify::Settings& given_;
    problem::DataClass data_;
    double rate_;
    float anchor_rate_;
    Boundary<float> boundary_;
    Matrix<float> m_;
    std::optional<Quantizer<float>> quantizer_;
    Recording recording_;
};

} // namespace

void record(const verify::SyntheticRun& run) {
    const Config config = config_of(run);
    Recorder recorder(config, run.settings);
    for (Index step = 1; step <= config.steps; ++step) {
        run.progress(step, config.steps);
        recorder.step(step);
    }
    write(run.output, recorder.recording(), run.source);
}

verify::Traces traces() {
    return {{"mapl"}, schema_of_config, verify_trace, made_up_settings(), record};
}

} // namespace truestep::verify::mapl
