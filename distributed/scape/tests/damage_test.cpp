// Damages a checkpoint: a byte changed at any place, cut short at any length, or longer; also other
// things in a folder of checkpoints. It is refused on all ranks in one line that names the file, or
// it is the checkpoint that it claims to be.
#include <functional>

#include <gtest/gtest.h>

#include "crash_support.hpp"

namespace truestep::distributed::scape::crash {
namespace {

constexpr int ranks = 2;
const std::string first_step = folder + "/step-0000000001";
const std::string second_step = folder + "/step-0000000002";

Tree written(const std::vector<Save>& saves) {
    return write(State({{"/home", std::nullopt}}), saves)->state().seen();
}

/// A run's two checkpoints.
const Tree& intact() {
    static const Tree tree = written({{1, ranks, 1}, {1, ranks, 2}});
    return tree;
}

struct Damage {
    std::string file;
    std::function<void(std::string&)> change;
};

/// Restores each damaged checkpoint, on ranks with a mask in flight. All must be refused, without
/// any change.
void expect_all_refused(const std::vector<Damage>& damages) {
    run_ranks(ranks, [&](Communicator& communicator) {
        const auto optimizer = new_optimizer(communicator);
        take_steps(*optimizer, 7, communicator.rank(), 3);
        int accepted = 0;
        for (const Damage& damage : damages) {
            Tree tree = intact();
            damage.change(*tree.at(damage.file));
            if (tree == intact())
                continue;
            Files files((State(tree)));
            try {
                restore_checkpoint(*optimizer, communicator, second_step, *files.rank(0));
                ++accepted;
            } catch (const Error& error) {
                const std::string message = error.what();
                ASSERT_NE(message.find(damage.file + ": "), std::string::npos) << message;
                ASSERT_EQ(message.find('\n'), std::string::npos) << message;
            }
        }
        EXPECT_EQ(accepted, 0) << "of " << damages.size();
        const auto through = new_optimizer(communicator);
        take_steps(*through, 7, communicator.rank(), 4);
        take_steps(*optimizer, 7, communicator.rank(), 4);
        EXPECT_TRUE(same(optimizer->state(), through->state()));
    });
}

std::vector<std::string> files_of_a_checkpoint() {
    std::vector<std::string> result;
    for (const auto& [path, contents] : intact())
        if (contents && path.starts_with(second_step))
            result.push_back(path);
    return result;
}

class Damaged : public testing::TestWithParam<std::size_t> {
  protected:
    std::string file_ = files_of_a_checkpoint().at(GetParam());
    std::size_t size_ = intact().at(file_)->size();
    std::vector<Damage> damages_;
};

TEST_P(Damaged, AnyChangedBitIsRefused) {
    for (std::size_t at = 0; at < size_; ++at)
        for (unsigned bit = 0; bit < 8; ++bit)
            damages_.push_back({file_, [=](std::string& bytes) {
                                    bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^
                                                                  (1U << bit));
                                }});
    EXPECT_GE(damages_.size(), 8 * 400U);
    expect_all_refused(damages_);
}

TEST_P(Damaged, AnyByteThatIsWhiteSpaceADigitOrNothingIsRefused) {
    for (std::size_t at = 0; at < size_; ++at)
        for (const char other : {' ', '\n', '\t', '0', '9', '\0', '\xff'})
            damages_.push_back({file_, [=](std::string& bytes) { bytes[at] = other; }});
    expect_all_refused(damages_);
}

TEST_P(Damaged, AnyLengthButItsOwnIsRefused) {
    for (std::size_t size = 0; size < size_; ++size)
        damages_.push_back({file_, [=](std::string& bytes) { bytes.resize(size); }});
    for (std::size_t at = 0; at <= size_; ++at) // a byte more, anywhere
        for (const char more : {' ', '\n', '\0'})
            damages_.push_back({file_, [=](std::string& bytes) { bytes.insert(at, 1, more); }});
    for (const std::size_t more : {2U, 7U, 8U, 9U, 512U, 4096U})
        damages_.push_back({file_, [=](std::string& bytes) { bytes.append(more, '\0'); }});
    expect_all_refused(damages_);
}

INSTANTIATE_TEST_SUITE_P(File, Damaged, testing::Values(0, 1, 2));

TEST(DamagedFiles, ThreeFilesAreAllThereIs) {
    EXPECT_EQ(files_of_a_checkpoint().size(), 3U);
}

/// Restores what latest_checkpoint finds: it must be this step of this run, or be refused with this
/// text.
void expect_found(const Tree& tree, const Save& save) {
    Reader reader({save});
    reader.read({tree});
    EXPECT_EQ(reader.verdict(tree).error, "");
    EXPECT_EQ(reader.verdict(tree).found, save);
}

void expect_refused(const Tree& tree, const std::string& text) {
    Reader reader({{1, ranks, 1}, {1, ranks, 2}});
    reader.read({tree});
    EXPECT_EQ(reader.verdict(tree).found, std::nullopt);
    EXPECT_NE(reader.verdict(tree).error.find(text), std::string::npos) << reader.verdict(tree).error;
}

/// Copies a whole folder under another name.
void copy(Tree& to, const std::string& place, const Tree& from, const std::string& source) {
    for (const auto& [path, contents] : from)
        if (path.starts_with(source))
            to[place + path.substr(source.size())] = contents;
}

TEST(LeftOver, WhatHasNoCheckpointsNameIsPassedOver) {
    Tree tree = intact();
    const Tree other = written({{4, 3, 9}});
    const std::string ninth = folder + "/step-0000000009";
    copy(tree, ninth + ".partial", other, ninth); // complete, but never renamed
    copy(tree, folder + "/step-backup", other, ninth);
    copy(tree, folder + "/step-9", other, ninth);
    copy(tree, folder + "/step-00000000009", other, ninth);
    copy(tree, folder + "/step-000000000x", other, ninth);
    copy(tree, folder + "/old-step-0000000009", other, ninth);
    tree[folder + "/step-0000000008"] = "a file";
    tree[folder + "/step-0000000007"] = std::nullopt;
    tree[folder + "/step-0000000007/rank-0000.safetensors"] = "no manifest";
    tree[folder + "/step-0000000003.partial"] = "a file where the next would be written";
    expect_found(tree, {1, ranks, 2});
}

TEST(LeftOver, OfThisStepAndAnotherRunIsNeverMixedIn) {
    Tree tree = intact();
    const Tree other = written({{4, 3, 3}}); // by more ranks
    copy(tree, folder + "/step-0000000003.partial", other, folder + "/step-0000000003");
    tree[folder + "/step-0000000003.partial/rank-0001.safetensors.partial"] = "half";
    tree[folder + "/step-0000000003.partial/more"] = std::nullopt;
    tree[folder + "/step-0000000003.partial/more/deep"] = "x";
    Files files((State(tree)));
    run_ranks(ranks, [&](Communicator& communicator) {
        const auto view = files.rank(communicator.rank());
        const auto optimizer = new_optimizer(communicator);
        restore_checkpoint(*optimizer, communicator, *latest_checkpoint(folder, *view), *view);
        take_steps(*optimizer, 1, communicator.rank(), 3);
        save_checkpoint(*optimizer, communicator, folder, *view);
    });
    Tree expected = intact();
    copy(expected, folder + "/step-0000000003", written({{1, ranks, 3}}), folder + "/step-0000000003");
    EXPECT_EQ(files.state().seen(), expected);
}

TEST(LeftOver, MoreFilesThanTheManifestNamesAreNotRead) {
    Tree tree = intact();
    const Tree other = written({{4, 3, 2}});
    tree[second_step + "/rank-0002.safetensors"] = other.at(second_step + "/rank-0002.safetensors");
    tree[second_step + "/rank-0000.safetensors.partial"] = "half";
    expect_found(tree, {1, ranks, 2});
}

TEST(LeftOver, AFileOfAnotherStepRunOrNumberOfRanksIsRefusedByName) {
    const std::string file = "/rank-0001.safetensors";
    for (const Tree& other : {written({{4, ranks, 2}}), written({{1, 3, 2}})}) {
        Tree tree = intact();
        tree[second_step + file] = other.at(second_step + file);
        expect_refused(tree, second_step + file + ": ");
        tree = intact();
        tree[second_step + "/manifest.json"] = other.at(second_step + "/manifest.json");
        expect_refused(tree, second_step + "/rank-0000.safetensors: ");
    }
    Tree tree = intact();
    tree[second_step + file] = tree.at(first_step + file);
    expect_refused(tree, second_step + file + ": ");
    tree.erase(second_step + file);
    expect_refused(tree, second_step + file + ": it cannot be read");
    tree[second_step + file] = std::nullopt;
    expect_refused(tree, second_step + file + ": it cannot be read: it is not a file");
}

TEST(LeftOver, AFolderThatHasAnotherStepsNameIsRefused) {
    Tree tree = intact();
    copy(tree, folder + "/step-0000000005", intact(), first_step);
    expect_refused(tree, folder + "/step-0000000005: its manifest is of step 1");
    tree = intact();
    copy(tree, folder + "/best", intact(), first_step);
    run_ranks(ranks, [&](Communicator& communicator) { // under a name that the user chose it is accepted
        Files files((State(tree)));
        const auto optimizer = new_optimizer(communicator);
        restore_checkpoint(*optimizer, communicator, folder + "/best/", *files.rank(0));
        EXPECT_EQ(optimizer->steps(), 1);
    });
}

TEST(LeftOver, RanksThatReadDifferentCheckpointsAreTold) {
    const Tree other = written({{4, ranks, 2}});
    run_ranks(ranks, [&](Communicator& communicator) { // a separate folder for each
        Files files(State(communicator.rank() == 0 ? intact() : other));
        const auto optimizer = new_optimizer(communicator);
        try {
            restore_checkpoint(*optimizer, communicator, second_step, *files.rank(0));
            ADD_FAILURE() << "not refused";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("rank 1 read another checkpoint than"),
                      std::string::npos)
                << error.what();
        }
        EXPECT_EQ(optimizer->steps(), 0);
    });
}

TEST(LeftOver, StepsOfMoreThanTenDigitsAreTheGreatest) {
    Tree tree = intact();
    for (const std::string step : {"9999999999", "10000000000"}) {
        tree[folder + "/step-" + step] = std::nullopt;
        tree[folder + "/step-" + step + "/manifest.json"] = "";
    }
    Files files((State(tree)));
    EXPECT_EQ(latest_checkpoint(folder, *files.rank(0)), folder + "/step-10000000000");
    EXPECT_EQ(latest_checkpoint("/absent", *files.rank(0)), std::nullopt);
    EXPECT_THROW(static_cast<void>(latest_checkpoint(second_step + "/manifest.json", *files.rank(0))),
                 Error);
}

} // namespace
} // namespace truestep::distributed::scape::crash
